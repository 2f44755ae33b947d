import pytest
import torch

from boundby.machine import compiled
from boundby.machine.compiled import COMPILED_DTYPES, GRAPHS, STACK, compiled_elements, compiled_probes
from boundby.machine.data import DataSource
from boundby.machine.functions import FUNCTIONS, function_arguments
from boundby.machine.probe import Window
from boundby.machine.rounds import Rounds, read_ceilings


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def probes_of(**options):
    return compiled_probes(DataSource(), threads=1, budget_s=100.0, **options)


@pytest.fixture(scope="module")
def traced():
    """Probes and findings, and the graphs that were traced: by torch.compile, but run by eager ops after that."""
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    with torch.no_grad():
        probes, findings = probes_of(compile_function=lambda function: torch.compile(function, backend=backend))
    return probes, findings, graphs


def test_one_compilation_a_graph_serves_each_of_its_functions_apart(traced):
    probes, findings, graphs = traced
    assert findings == ()
    assert len(graphs) == 1 + len(GRAPHS) * len(COMPILED_DTYPES)
    for probe in probes.probes:
        probe.call()
    assert len(graphs) == 1 + len(GRAPHS) * len(COMPILED_DTYPES)
    names = {(reading.name, reading.dtype) for reading in probes.readings if reading.kind == "function"}
    assert names == {(name, dtype) for functions in GRAPHS for name in functions for dtype in COMPILED_DTYPES}
    assert {reading.stack for reading in probes.readings} == {STACK}
    keys = {probe.key for probe in probes.probes}
    assert all(set(reading.keys) <= keys for reading in probes.readings)
    assert [reading.kind for reading in probes.readings if reading.name == "compiled_call"] == ["overhead"]


def test_a_probe_works_on_many_elements_of_its_own_function_only(traced):
    probes, _, _ = traced
    by_key = {probe.key: probe for probe in probes.probes}
    for reading in probes.readings:
        if reading.kind != "function":
            continue
        (tensors,) = by_key[reading.keys[0]].call.args
        lengths = [one[-1].shape[0] for one in tensors]
        names = next(list(functions) for functions in GRAPHS if reading.name in functions)
        many = names.index(reading.name)
        assert tensors[many][-1].numel() == compiled_elements(1)
        assert all(length == 2 for index, length in enumerate(lengths) if index != many)
        assert by_key[reading.keys[1]].call.func is by_key[reading.keys[0]].call.func


@pytest.mark.parametrize("dtype", COMPILED_DTYPES)
def test_compiled_functions_are_the_eager_ones_of_the_same_name(dtype):
    arguments = function_arguments(DataSource(), 1024, dtype)
    for functions in GRAPHS:
        for name, function in functions.items():
            taken = [getattr(arguments, one) for one in function.takes]
            result = function.apply(*(one.view(-1, 128) for one in taken))
            torch.testing.assert_close(result.view(-1), FUNCTIONS[name](arguments)().view(-1))


def test_the_compiler_makes_one_loop_a_function_and_right_results(monkeypatch):
    monkeypatch.setattr(compiled, "COMPILED_DTYPES", ("fp32",))
    monkeypatch.setattr(compiled, "GRAPHS", ({"exp": GRAPHS[2]["exp"], "softmax": GRAPHS[5]["softmax"]},))
    probes, findings = probes_of()
    assert findings == ()
    _, _, exp, softmax = probes.probes
    assert [probe.key for probe in (exp, softmax)] == ["torch.compile exp fp32", "torch.compile softmax fp32"]
    exp.call()
    (x, out), _ = exp.call.args[0]
    torch.testing.assert_close(out, torch.exp(x))
    softmax.call()
    _, (x, out) = softmax.call.args[0]
    torch.testing.assert_close(out, torch.softmax(x, 1))


def test_a_function_costs_what_its_call_takes_more_than_the_call_on_next_to_nothing(traced):
    probes, _, _ = traced
    (reading,) = [one for one in probes.readings if (one.name, one.dtype) == ("exp", "fp32")]
    own, nothing = reading.keys

    def ceilings(seconds):
        windows = {own: [Window(seconds=seconds)], nothing: [Window(seconds=40e-6)]}
        return read_ceilings([reading], Rounds(windows=windows, rounds=1, dropped=0), threads=1)

    (ceiling,) = ceilings(40e-6 + 30e-6)
    assert ceiling.value == pytest.approx(30e-6 / (compiled_elements(1) - 2 * 128))
    assert (ceiling.stack, ceiling.unit, ceiling.size_bytes) == (STACK, "s", 4 * compiled_elements(1))
    assert ceilings(40e-6 + 1e-6) == ()


def test_what_does_not_fit_the_budget_is_left_out_and_named():
    now = [0]

    def compile_slowly(function):
        now[0] += 10 * 10**9
        return lambda *arguments: None

    probes, (finding,) = compiled_probes(
        DataSource(), threads=1, budget_s=25.0, clock=lambda: now[0], compile_function=compile_slowly
    )
    # The first takes 10 s, the second ends at 20 s, a third would not be done by 25 s.
    assert now[0] == 20 * 10**9
    assert {reading.dtype for reading in probes.readings} == {None, "fp32"}
    assert finding.code == "compile-cut-short"
    assert finding.message.count(";") == 2 * len(GRAPHS) - 2
    assert "in bf16" in finding.message


def test_no_budget_compiles_nothing():
    def never(function):
        raise AssertionError

    probes, (finding,) = compiled_probes(DataSource(), threads=1, budget_s=0.0, compile_function=never)
    assert probes.probes == ()
    assert finding.code == "compile-cut-short"


def test_what_fails_to_compile_is_left_out_and_the_rest_is_kept():
    def fail_on_graphs(function):
        if function.__name__ == "graph":
            raise RuntimeError("C++ compile error\nCommand: g++ ...")
        return function

    probes, (finding,) = probes_of(compile_function=fail_on_graphs)
    assert [reading.name for reading in probes.readings] == ["compiled_call"]
    assert finding.code == "compile-failed"
    assert finding.message.endswith(f"in fp32 and {2 * len(GRAPHS) - 1} more graphs: C++ compile error")


def test_a_graph_that_would_be_compiled_again_for_each_call_is_not_timed():
    def by_length(function):
        return torch.compile(function, backend="eager", dynamic=False)

    def specialised(function):
        # What a compiler does that takes the lengths it sees first for constants.
        compiled_function = by_length(function)

        def call(*arguments):
            for tensors in arguments[0] if isinstance(arguments[0], list) else ():
                for tensor in tensors:
                    tensor.__dict__.clear()
            compiled_function(*arguments)

        return call

    probes, (finding,) = probes_of(compile_function=specialised)
    assert [reading.name for reading in probes.readings] == ["compiled_call"]
    assert finding.code == "compile-failed"


def test_without_a_compiler_it_is_said_once_and_nothing_fails(tmp_path):
    import torch._inductor.config as settings

    with settings.patch({"cpp.cxx": (None, str(tmp_path / "none")), "force_disable_caches": True}):
        probes, (finding,) = probes_of()
    assert probes.probes == ()
    assert finding.code == "no-compiler"


def test_each_thread_has_two_pieces_and_no_more_than_fit():
    assert compiled_elements(1) == 64 * 1024
    assert compiled_elements(4) == 256 * 1024
    assert compiled_elements(1000) == 1 << 20
