"""Counts on meta and fake tensors: those of the real device where it runs the same ops, and told where it does not."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.checkpoint import checkpoint

from boundby.capture.counter import count_callable
from boundby.capture.meta import fake_tensors, has_meta_tensors, needs_values
from boundby.results.module_tree import CallCounts

Built = tuple[Callable[..., Any], tuple[Any, ...]]
NUMBERS = (
    "ops",
    "launches",
    "matmul_flops",
    "causal_matmul_flops",
    "pointwise_flops",
    "bytes_read",
    "bytes_written",
    "saved_bytes",
    "saved_input_bytes",
    "recomputed_flops",
    "by_op",
    "by_phase",
    "by_module",
    "tree",
)


def numbers(counts: CallCounts) -> dict[str, Any]:
    return {name: getattr(counts, name) for name in NUMBERS}


@contextmanager
def on(device: str) -> Iterator[None]:
    """New tensors are real ones on the CPU, meta tensors, or fake tensors of the CPU."""
    if device == "fake":
        with FakeTensorMode():
            yield
    else:
        with torch.device(device):
            yield


def count_on(device: str, build: Callable[[], Built], *, backward: bool) -> CallCounts:
    with on(device):
        fn, args = build()

        def step(*given: Any) -> None:
            out = fn(*given)
            (out[0] if isinstance(out, tuple) else out).sum().backward()

        return count_callable(step if backward else fn, *args)


def convolutional() -> Built:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.GELU(), nn.MaxPool2d(2), nn.Flatten())
    return model, (torch.zeros(2, 3, 8, 8),)


def encoder() -> Built:
    return nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (torch.zeros(2, 5, 8),)


def normed() -> Built:
    return nn.Sequential(nn.LayerNorm(8), nn.RMSNorm(8), nn.SiLU(), nn.Softmax(-1), nn.Dropout()), (torch.zeros(3, 8),)


def checkpointed() -> Built:
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8))
    return partial(checkpoint, model, use_reentrant=False), (torch.zeros(3, 8),)


def lstm() -> Built:
    return nn.LSTM(8, 16), (torch.zeros(5, 3, 8),)


def causal_attention() -> Built:
    query = torch.zeros(1, 2, 16, 8, requires_grad=True)
    return partial(F.scaled_dot_product_attention, is_causal=True), (query, query, query)


# ---- the same numbers where the same ops run -------------------------------------------------------------------
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("build", [convolutional, encoder, normed, checkpointed])
@pytest.mark.parametrize("device", ["meta", "fake"])
def test_numbers_are_those_of_the_cpu(device: str, build: Callable[[], Built], backward: bool) -> None:
    real, without_data = (count_on(where, build, backward=backward) for where in ("cpu", device))
    assert numbers(without_data) == numbers(real)
    assert without_data.findings == ()


@given(
    batch=st.integers(1, 5),
    widths=st.lists(st.integers(1, 9), min_size=2, max_size=5),
    backward=st.booleans(),
    device=st.sampled_from(["meta", "fake"]),
)
@settings(max_examples=25, deadline=None)
def test_numbers_of_linear_stacks_are_those_of_the_cpu(
    batch: int, widths: list[int], backward: bool, device: str
) -> None:
    def build() -> Built:
        layers = [layer for wide, out in pairwise(widths) for layer in (nn.Linear(wide, out), nn.GELU())]
        return nn.Sequential(*layers), (torch.zeros(batch, widths[0]),)

    real, without_data = (count_on(where, build, backward=backward) for where in ("cpu", device))
    assert numbers(without_data) == numbers(real)
    assert without_data.findings == ()
    assert without_data.devices == (("meta",) if device == "meta" else ("fake cpu",))


@pytest.mark.parametrize("backward", [False, True])
def test_fake_tensors_run_the_attention_of_their_device(backward: bool) -> None:
    real, fake = (count_on(where, causal_attention, backward=backward) for where in ("cpu", "fake"))
    assert numbers(fake) == numbers(real)
    assert fake.causal_matmul_flops < fake.matmul_flops


# ---- where other ops run --------------------------------------------------------------------------------------------
def test_a_recurrent_layer_on_meta_is_told() -> None:
    real, meta = (count_on(where, lstm, backward=False) for where in ("cpu", "meta"))
    assert meta.matmul_flops == real.matmul_flops
    assert {one.name for one in meta.by_op} != {one.name for one in real.by_op}
    (finding,) = meta.findings
    assert finding.code == "meta-differs"
    assert finding.message.startswith("torch.lstm (1 call; in LSTM) runs")
    assert "1 aten.mkldnn_rnn_layer" in finding.message
    assert "on meta as many matmul FLOPs" in finding.message


def test_fake_recurrent_layers_lack_the_workspace_and_say_so() -> None:
    real, fake = (count_on(where, lstm, backward=False) for where in ("cpu", "fake"))
    assert (fake.ops, fake.matmul_flops, fake.bytes_read) == (real.ops, real.matmul_flops, real.bytes_read)
    assert fake.bytes_written < real.bytes_written
    assert [one.code for one in fake.findings] == ["workspace-unknown"]


@pytest.mark.parametrize("backward", [False, True])
def test_what_meta_attention_costs_more_is_what_the_finding_says(backward: bool) -> None:
    def build() -> Built:
        layers = nn.ModuleList([nn.Identity(), nn.Identity()])
        query = torch.zeros(1, 2, 16, 8, requires_grad=True)

        def twice(x: torch.Tensor) -> torch.Tensor:
            for _ in layers:
                x = F.scaled_dot_product_attention(x, x, x, is_causal=True)
            return x

        return twice, (query,)

    real, meta = (count_on(where, build, backward=backward) for where in ("cpu", "meta"))
    (finding,) = meta.findings
    assert finding.message.startswith("torch.nn.functional.scaled_dot_product_attention (2 calls; outside modules)")
    # The fused backward computes the scores again: 4 + 10 against 4 + 8 products of that size.
    assert ("0.86x the matmul FLOPs" if backward else "as many matmul FLOPs") in finding.message
    assert (meta.matmul_flops / real.matmul_flops) == pytest.approx(12 / 14 if backward else 1)


def test_autocast_is_told() -> None:
    with torch.device("meta"):
        model, x = nn.Linear(8, 8), torch.zeros(2, 8)

    def call() -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(x)

    plain, cast = count_callable(model, x), count_callable(call)
    assert plain.findings == ()
    (finding,) = cast.findings
    assert "lacks 3 aten._to_copy on meta that cpu runs" in finding.message


def test_the_fast_path_of_attention_modules_is_told() -> None:
    model = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, device="meta").eval()
    x = torch.zeros(2, 5, 8, device="meta")
    with torch.inference_mode():
        fast = [one.message for one in count_callable(model, x).findings if "may run as one op" in one.message]
    assert len(fast) == 1
    assert "in self_attn" in fast[0]
    assert not [one for one in count_callable(model, x).findings if "may run as one op" in one.message]


def test_what_cannot_be_compared_is_named() -> None:
    model, x = nn.Linear(4, 4, device="meta"), torch.zeros(2, 4, device="meta")
    (finding,) = count_callable(torch.func.vmap(model), x).findings
    assert (finding.code, "torch.func" in finding.message) == ("meta-unchecked", True)


def test_meta_tensors_made_in_the_call_are_not_compared_and_that_is_said() -> None:
    counts = count_callable(lambda: torch.zeros(3, 3, device="meta") @ torch.zeros(3, 3, device="meta"))
    assert [one.code for one in counts.findings] == ["meta-unchecked"]
    assert counts.matmul_flops == 54


def test_a_device_given_as_an_argument_is_no_difference() -> None:
    x = torch.zeros(3, 4, device="meta")
    assert count_callable(lambda: (x.to(x.device), x.to("meta"), x.new_zeros(3, device=x.device))).findings == ()


def test_values_that_are_not_known_are_told() -> None:
    real, meta = (
        count_on(where, lambda: (nn.Embedding(10, 4), (torch.zeros(6, dtype=torch.long),)), backward=False)
        for where in ("cpu", "meta")
    )
    # One row is read of real tensors, whose indices are all 0; up to six are of meta tensors.
    assert meta.bytes_read - real.bytes_read == 5 * 4 * 4
    assert [one.code for one in meta.findings] == ["values-unknown"]
    assert real.findings == ()


# ---- comparing changes nothing ------------------------------------------------------------------------------------
def test_the_users_functions_are_called_once() -> None:
    called = []

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            called.append("forward")
            return 2 * x

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            called.append("backward")
            return 2 * grad

    model, x = nn.Linear(4, 4, device="meta"), torch.zeros(2, 4, device="meta")
    model.register_forward_hook(lambda *_: called.append("hook"))
    packed = []

    def call() -> None:
        with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(1) or t, lambda t: t):
            Twice.apply(model(x)).sum().backward()

    call()
    once, packed_once = [*called], len(packed)
    called.clear()
    packed.clear()
    count_callable(call)
    assert (called, len(packed)) == (once, packed_once)


def test_the_random_state_and_gradients_stay_as_they_would_be() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout()).to("meta")
    x = torch.zeros(2, 4, device="meta")
    torch.manual_seed(0)
    state = torch.get_rng_state()
    count_callable(lambda: model(x).sum().backward())
    assert torch.equal(torch.get_rng_state(), state)
    assert model[0].weight.grad is not None
    assert model[0].weight.grad.is_meta


class Trainer:
    def __init__(self, device: str) -> None:
        self.model = nn.Linear(2, 2, device=device)

    def step(self) -> torch.Tensor:
        return self.model(torch.zeros(1, 2, device=self.model.weight.device))


GLOBAL = nn.Linear(2, 2, device="meta")


def calls_the_global() -> Any:
    return GLOBAL(torch.zeros(1, 2, device="meta"))


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_meta_tensors_are_found_where_a_call_can_reach_them(device: str) -> None:
    trainer = Trainer(device)
    model, tensor = trainer.model, torch.zeros(2, device=device)
    reaching = [model, trainer.step, lambda: model(tensor), partial(model, tensor), [{"x": tensor}], lambda: trainer]
    assert [has_meta_tensors(one) for one in reaching] == [device == "meta"] * len(reaching)
    assert has_meta_tensors(calls_the_global)
    assert has_meta_tensors(lambda x=tensor: x) == (device == "meta")


# ---- code that asks for values ------------------------------------------------------------------------------------
@pytest.mark.parametrize("device", ["meta", "fake"])
@pytest.mark.parametrize(
    "ask", [lambda x: x.sum().item(), lambda x: x[x > 0], lambda x: x.nonzero(), lambda x: 1 if x.sum() > 0 else 0]
)
def test_code_that_asks_for_values_is_recognised(device: str, ask: Callable[[torch.Tensor], Any]) -> None:
    with on(device):
        x = torch.zeros(3)
    with pytest.raises(Exception) as raised:  # noqa: PT011  # torch has four kinds of error for it
        count_callable(ask, x)
    assert needs_values(raised.value)


def test_other_errors_are_not_taken_for_it() -> None:
    with pytest.raises(RuntimeError) as raised:
        count_callable(nn.Linear(3, 3, device="meta"), torch.zeros(2, 4, device="meta"))
    assert not needs_values(raised.value)


# ---- at size --------------------------------------------------------------------------------------------------------
LAYER_WEIGHTS = 2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 28672


def llama_70b(layers: int = 80) -> Any:
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        hidden_size=8192,
        intermediate_size=28672,
        num_hidden_layers=layers,
        num_attention_heads=64,
        num_key_value_heads=8,
        vocab_size=128256,
        max_position_embeddings=8192,
    )
    return transformers.LlamaForCausalLM(config)


def test_70_billion_parameters_count_without_memory() -> None:
    length = 2048
    with torch.device("meta"):
        model, ids = llama_70b(), torch.zeros(1, length, dtype=torch.long)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    counts = count_callable(model, input_ids=ids)
    grown_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown_mib < 200
    attention = 4 * 64 * length * length * 128
    assert counts.matmul_flops == 80 * (2 * length * LAYER_WEIGHTS + attention) + 2 * length * 8192 * 128256
    assert counts.tree.parameters == 70_553_706_496
    assert [one.code for one in counts.findings] == ["meta-differs", "values-unknown"]
    assert "(80 calls; in model.layers.0.self_attn and 79 more places)" in counts.findings[0].message


def test_fake_modules_can_be_cast_and_moved() -> None:
    with fake_tensors():
        embedding, head = nn.Embedding(10, 4), nn.Linear(4, 10, bias=False)
        head.weight = embedding.weight
        model = nn.Sequential(embedding, nn.LSTM(4, 4), nn.BatchNorm1d(3)).to(torch.bfloat16).to("cpu").half()
        head.double()
        assert {one.dtype for one in model.parameters()} == {torch.float16, torch.float64}
        x = nn.Linear(4, 4).to(torch.bfloat16)(torch.zeros(2, 4, dtype=torch.bfloat16))
    assert x.dtype is torch.bfloat16
    assert torch.utils.swap_tensors.__name__ == "swap_tensors"


def test_layers_of_that_size_on_fake_tensors() -> None:
    with fake_tensors():
        model, ids = llama_70b(layers=4), torch.zeros(1, 64, dtype=torch.long)
        counts = count_callable(model, input_ids=ids)
    assert counts.tree.parameters == 4 * (LAYER_WEIGHTS + 2 * 8192) + 2 * 8192 * 128256 + 8192
    fused = {one.name: one.ops for one in counts.by_op}
    assert fused["aten::_scaled_dot_product_flash_attention_for_cpu"] == 4
