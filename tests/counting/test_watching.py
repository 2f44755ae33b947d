"""Watching changes nothing: results, compilation, transforms, subclasses, other modes; and sees what runs."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from counting_cases import count
from torch import nn
from torch._dynamo.testing import CompileCounter
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention.flex_attention import flex_attention
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import TorchDispatchMode, _len_torch_dispatch_stack

from boundby.capture.watcher import OpWatcher

r = torch.randn


class Listing(OpWatcher):
    """Lists the ops it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: list[str] = []

    def run_op(self, func: Any, args: Any, kwargs: Any) -> Any:
        self.ops.append(func._schema.name)
        return func(*args, **kwargs)

    def missed_op(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        self.ops.append(f"missed {func}")


class UserMode(TorchDispatchMode):
    """A mode of the user's that counts the ops it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += 1
        return func(*args, **(kwargs or {}))


# ---- the same results --------------------------------------------------------------------------------------
@pytest.mark.parametrize("context", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_results_are_bit_identical(context: Callable[[], Any]) -> None:
    torch.manual_seed(0)
    encoder = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval()
    convnet = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.GELU(), nn.Flatten(), nn.Linear(144, 5)).eval()
    tokens, image = r(2, 5, 16), r(2, 3, 8, 8)

    def work() -> list[torch.Tensor]:
        with context():
            return [encoder(tokens), convnet(image), F.interpolate(image, scale_factor=1.5, mode="bilinear")]

    plain = work()
    with Listing():
        watched = work()
    assert all(torch.equal(one, other) for one, other in zip(plain, watched, strict=True))


def test_inference_mode_shows_the_ops_that_no_grad_shows() -> None:
    layer, x = nn.Linear(8, 3), r(4, 8)
    seen = []
    for context in (torch.no_grad, torch.inference_mode):
        with context(), Listing() as watcher:
            layer(x).log_softmax(-1)
        seen.append([op for op in watcher.ops if op != "aten::detach"])
    assert seen[0] == seen[1] == ["aten::t", "aten::addmm", "aten::_log_softmax"]


def test_tensors_die_when_they_would_have() -> None:
    def work() -> bool:
        x = r(1000)
        gone = weakref.ref(x)
        y = x.exp()
        del x
        y.sin()
        return gone() is None

    gc.disable()
    try:
        seen: list[bool] = []
        count(lambda: seen.append(work()))
    finally:
        gc.enable()
    assert seen == [True]


def test_exceptions_come_through_and_watching_ends() -> None:
    def work() -> None:
        r(2, 3) @ r(2, 3)

    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        count(work)
    assert _len_torch_dispatch_stack() == 0


# ---- start and stop ----------------------------------------------------------------------------------------
def test_stops_under_a_mode_that_was_pushed_since() -> None:
    x = r(3)
    watcher, user = Listing(), UserMode()
    watcher.start()
    with user:
        x.exp()
        watcher.stop()
        x.sin()
    x.cos()
    assert watcher.ops == ["aten::exp"]
    assert user.calls == 2
    assert _len_torch_dispatch_stack() == 0


def test_stop_inside_an_op_makes_it_inert() -> None:
    class StopsItself(Listing):
        def run_op(self, func: Any, args: Any, kwargs: Any) -> Any:
            self.stop()
            return super().run_op(func, args, kwargs)

    x = r(3)
    watcher = StopsItself()
    watcher.start()
    x.exp()
    x.sin()
    watcher.stop()
    assert watcher.ops == ["aten::exp"]
    assert _len_torch_dispatch_stack() == 0


def test_stop_twice_and_without_start() -> None:
    watcher = Listing()
    watcher.stop()
    with watcher:
        r(1)
    watcher.stop()
    assert watcher.ops == ["aten::randn"]


def test_other_threads_are_not_seen() -> None:
    x = r(3)
    with Listing() as watcher:
        thread = threading.Thread(target=lambda: x.exp())
        thread.start()
        thread.join()
    assert watcher.ops == []


# ---- torch.compile ------------------------------------------------------------------------------------------
def test_a_function_first_called_under_the_watcher_compiles_and_stays_compiled() -> None:
    def work(x: torch.Tensor) -> torch.Tensor:
        y = (x @ x.t()).relu()
        torch._dynamo.graph_break()
        return (y @ x).sum()

    x = r(4, 8)
    torch._dynamo.reset()
    alone = CompileCounter()
    torch.compile(work, backend=alone)(x)
    torch._dynamo.reset()
    backend = CompileCounter()
    compiled = torch.compile(work, backend=backend)
    seen = count(compiled, x)
    assert seen.matmul_flops == 2 * (4 * 8 * 4 + 4 * 4 * 8)
    assert (alone.frame_count, alone.op_count) == (backend.frame_count, backend.op_count)
    compiled(x)
    count(compiled, x)
    compiled(x)
    assert alone.frame_count == backend.frame_count


def test_a_compiled_function_is_not_compiled_again_under_the_watcher() -> None:
    torch._dynamo.reset()
    backend = CompileCounter()
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    compiled = torch.compile(model, backend=backend)
    x = r(2, 4)

    def step() -> None:
        compiled(x).sum().backward()
        optimizer.step()

    step()
    before = backend.frame_count
    count(step)
    step()
    assert before == backend.frame_count == 1


def test_a_compiled_optimizer_step_is_not_compiled_again() -> None:
    torch._dynamo.reset()
    backend = CompileCounter()
    weight = nn.Parameter(r(4))
    weight.grad = torch.ones(4)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    step = torch.compile(optimizer.step, backend=backend)
    step()
    step()
    before = backend.frame_count
    count(step)
    step()
    assert before == backend.frame_count


def test_regions_that_inductor_fused_are_counted_as_what_they_run() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: (x.sin() * x.cos()).exp())
    x = r(64)
    first, second = count(compiled, x), count(compiled, x)
    torch._dynamo.reset()
    # One kernel that reads and writes each element once, against a kernel for each of the four functions.
    for seen in (first, second):
        assert (seen.ops, seen.launches, seen.pointwise_flops) == (1, 1, 4 * 64)
        assert (seen.bytes_read, seen.bytes_written) == (64 * 4, 64 * 4)
        assert [(one.name, one.launches) for one in seen.by_op] == [("torch.compile region", 1)]
        assert seen.unmodelled == ()
        assert seen.eager is not None
        assert (seen.eager.launches, seen.eager.bytes_written) == (4, 4 * 64 * 4)


# ---- transforms and higher-order ops -------------------------------------------------------------------------
def test_function_transforms_run_and_are_counted() -> None:
    a, w = r(4, 5), r(5, 3)

    def loss(w: torch.Tensor) -> torch.Tensor:
        return (a @ w).sum()

    product = 2 * 4 * 5 * 3
    assert 2 * product == count(torch.func.grad(loss), w).matmul_flops
    assert 2 * product == count(lambda: torch.func.vjp(lambda w: a @ w, w)[1](r(4, 3))).matmul_flops
    assert count(torch.func.jacrev(lambda w: (a @ w).sum(0)), w).matmul_flops > product
    assert 7 * product == count(torch.func.vmap(lambda w: a @ w), r(7, 5, 3)).matmul_flops
    assert not count(torch.func.hessian(lambda v: (v**3).sum()), r(4)).unmodelled
    assert torch.equal(torch.func.grad(loss)(w), a.sum(0)[:, None].expand(5, 3))


def test_only_the_branch_that_runs_is_counted() -> None:
    x = r(4, 4)

    def work(yes: bool) -> Callable[[], torch.Tensor]:
        return lambda: torch.cond(torch.tensor(yes), lambda x: x @ x, lambda x: x.sin(), (x,))

    assert count(work(True)).matmul_flops == 2 * 64
    assert (count(work(False)).matmul_flops, count(work(False)).pointwise_flops) == (0, 16)


def test_loops_are_seen_inside() -> None:
    from torch._higher_order_ops.while_loop import while_loop

    def work() -> Any:
        return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x @ x), (torch.tensor(0), torch.eye(4)))

    assert count(work).matmul_flops == 3 * 2 * 64


def test_flex_attention_is_seen_inside() -> None:
    q, k, v = r(1, 2, 16, 8), r(1, 2, 16, 8), r(1, 2, 16, 8)
    assert count(lambda: flex_attention(q, k, v)).matmul_flops == 4 * 2 * 16 * 16 * 8


# ---- tensor subclasses and other modes -----------------------------------------------------------------------
class Wrapper(torch.Tensor):
    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Wrapper:
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, strides=inner.stride())
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def unwrap(one: Any) -> Any:
            return one.inner if isinstance(one, cls) else one

        out = torch.utils._pytree.tree_map(unwrap, (args, kwargs or {}))
        result = func(*out[0], **out[1])
        return cls(result) if isinstance(result, torch.Tensor) else result


class Opaque(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C._DisableTorchDispatch():
            return func(*args, **(kwargs or {}))


def test_a_wrapper_subclass_shows_its_inner_ops_once() -> None:
    a, b = Wrapper(r(8, 16)), Wrapper(r(16, 4))
    with Listing() as watcher:
        out = a @ b
    assert watcher.ops == ["aten::mm"]
    assert isinstance(out, Wrapper)
    assert torch.equal(out.inner, a.inner @ b.inner)


def test_nested_wrappers_and_pairs() -> None:
    assert count(lambda: Wrapper(Wrapper(r(8, 16))) @ Wrapper(Wrapper(r(16, 4)))).matmul_flops == 2 * 512
    pair = TwoTensor(r(4, 4), r(4, 4))
    assert count(lambda: pair @ pair).matmul_flops == 2 * 2 * 64


def test_a_subclass_that_hides_its_inner_ops_is_charged_with_its_own() -> None:
    x = r(4, 8).as_subclass(Opaque)
    assert count(lambda: x @ x.t()).matmul_flops == 2 * 4 * 8 * 4


def test_jagged_tensors_count_their_real_lengths() -> None:
    ragged = torch.nested.nested_tensor([r(3, 8), r(5, 8)], layout=torch.jagged)
    layer = nn.Linear(8, 4)
    seen = count(lambda: layer(ragged).values().sum().backward())
    assert seen.matmul_flops == 2 * 8 * 8 * 4 * 2
    assert not seen.unmodelled


def test_strided_nested_tensors_count_their_real_lengths() -> None:
    ragged = torch.nested.nested_tensor([r(3, 8), r(5, 8)])
    layer = nn.Linear(8, 4)
    assert count(layer, ragged).matmul_flops == 2 * 8 * 8 * 4


def test_fake_tensors_work_inside_and_outside_their_mode() -> None:
    mode = FakeTensorMode()
    with mode:
        layer, x = nn.Linear(8, 4), r(16, 8)
        inside = count(layer, x)
    outside = count(layer, x)
    assert inside.matmul_flops == outside.matmul_flops == 2 * 16 * 8 * 4
    assert isinstance(x, torch._subclasses.FakeTensor)


def test_meta_models_are_counted_without_memory() -> None:
    with torch.device("meta"):
        layer, ids, table = nn.Linear(8192, 28672), torch.zeros(4, dtype=torch.long), nn.Embedding(128_000, 8192)
        x = table(ids)
    seen = count(lambda: layer(table(ids)))
    assert seen.matmul_flops == 2 * 4 * 8192 * 28672
    assert x.device.type == "meta"


def test_the_users_modes_get_every_op_as_before() -> None:
    x = r(4, 4)
    inside = UserMode()

    def work() -> None:
        with inside:
            x @ x

    assert count(work).matmul_flops == 2 * 64
    outside = UserMode()
    with outside:
        assert count(lambda: x @ x).matmul_flops == 2 * 64
    assert inside.calls == outside.calls == 1


def test_a_mode_below_the_watcher_still_gets_a_subclass_op() -> None:
    a = Wrapper(r(4, 4))
    user = UserMode()
    with user:
        seen = count(lambda: a @ a)
    assert seen.matmul_flops == 2 * 64
    assert user.calls >= 1
