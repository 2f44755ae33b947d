"""Which functions' variables may be read, and that reading leaves no trace in them."""

from __future__ import annotations

import builtins
import sys
import weakref
from builtins import locals as renamed
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from boundby.capture.frame_names import names_in

SHARED = sys.version_info < (3, 13)
only_shared = pytest.mark.skipif(not SHARED, reason="a function's names are no dict that is shared")
# Written so that this file is none that asks frames for their dict.
ASKED_BY = "f_" + "locals"
vars_of_mine = {"rate": 0.1}


def look(**how: bool) -> list[str]:
    return [name for name, _ in names_in(sys._getframe(1), **how)]


class Model:
    locals = vars = ()

    def eval(self) -> Model:
        return self


def plain(model: Model) -> list[str]:
    return look()


def of_attributes(model: Model) -> list[str]:
    model.eval()
    assert model.locals == model.vars
    return look()


def of_an_argument(model: Model) -> list[str]:
    vars(Model.__dict__["eval"])
    vars(Model) if model else None
    vars(type(Model if model else model))
    return look()


def of_names_alone(model: Model) -> list[str]:
    dir()
    eval("1", {})
    exec("pass", {**vars(Model), "rate": len(vars_of_mine)}, {})
    builtins.eval("rate", {"rate": 1, "size": len(vars_of_mine)})
    return look()


def of_an_inner_function(model: Model) -> list[str]:
    def inner() -> dict[str, object]:
        return locals()

    inner()
    return look()


@pytest.mark.parametrize("function", [plain, of_attributes, of_names_alone, of_an_inner_function])
def test_functions_that_are_given_no_dict_are_read(function: Any) -> None:
    assert function(Model())[0] == "model"


@only_shared
def test_an_argument_beyond_a_branch_is_not_followed() -> None:
    assert of_an_argument(Model()) == []


def by_locals(model: Model) -> list[str]:
    locals()
    return look()


def by_vars(model: Model) -> list[str]:
    vars()
    return look()


def by_vars_of_any(model: Model, *which: object) -> list[str]:
    vars(*which)
    return look()


def by_another_name(model: Model) -> list[str]:
    renamed()
    return look()


def by_the_builtins(model: Model) -> list[str]:
    builtins.locals()
    return look()


def by_builtins_of_its_own(model: Model) -> list[str]:
    import builtins as mine

    mine.locals()
    return look()


def by_a_variable(model: Model) -> list[str]:
    give = locals
    give()
    return look()


def by_handing_it_on(model: Model) -> list[str]:
    list(map(eval, ["model"]))
    return look()


def by_eval(model: Model) -> list[str]:
    eval("model")
    return look()


def by_eval_with_none(model: Model) -> list[str]:
    eval("model", None)
    return look()


def by_exec_with_a_variable(model: Model, given: dict[str, Any] | None = None) -> list[str]:
    exec("model", given)
    return look()


def by_exec_with_none_and_a_dict(model: Model) -> list[str]:
    exec("model", None, {"model": model})
    return look()


def by_eval_of_a_dict(model: Model) -> list[str]:
    eval("model", {}.get("names"))
    return look()


def by_a_frame(model: Model) -> list[str]:
    sys._getframe()
    return look()


def by_an_inner_frame(model: Model) -> list[str]:
    def inner() -> FrameType:
        return sys._getframe(1)

    inner()
    return look()


@only_shared
@pytest.mark.parametrize(
    "function",
    [
        by_locals,
        by_vars,
        by_vars_of_any,
        by_another_name,
        by_the_builtins,
        by_builtins_of_its_own,
        by_a_variable,
        by_handing_it_on,
        by_eval,
        by_eval_with_none,
        by_exec_with_a_variable,
        by_exec_with_none_and_a_dict,
        by_eval_of_a_dict,
        by_a_frame,
        by_an_inner_frame,
    ],
)
def test_functions_that_may_hold_the_dict_are_left_alone(function: Any) -> None:
    assert function(Model()) == []


def test_a_name_of_the_script_s_is_not_the_builtin() -> None:
    names: dict[str, Any] = {"look": look, "vars": lambda: None}
    exec(compile("def run(x):\n    vars()\n    return look()", __file__, "exec"), names)
    assert names["run"](1) == ["x"]
    names["vars"] = locals
    assert names["run"](1) == ([] if SHARED else ["x"])


@only_shared
def test_a_file_that_asks_frames_and_one_without_text_are_left_alone(tmp_path: Any) -> None:
    source = "def run(x):\n    return look()\n"
    for text, found in ((source, ["x"]), (source + f"def other(frame):\n    frame.{ASKED_BY}\n", [])):
        file = tmp_path / f"script{len(found)}.py"
        file.write_text(text)
        names: dict[str, Any] = {"look": look}
        exec(compile(text, str(file), "exec"), names)
        assert names["run"](1) == found
    exec(compile(source, str(tmp_path / "none.py"), "exec"), names)
    assert names["run"](1) == []


def traced(called_us: bool) -> list[str]:
    before = sys.gettrace()
    sys.settrace(lambda *_: None)
    try:
        return look(called_us=called_us)
    finally:
        sys.settrace(before)


def test_under_a_tracer_only_a_function_that_called_boundby_is_read() -> None:
    assert traced(called_us=True) == ["called_us", "before"]
    assert traced(called_us=False) == ([] if SHARED else ["called_us", "before"])


def held_elsewhere(frames: Iterator[Any]) -> tuple[dict[str, Any], int]:
    value = 3
    mine = getattr(getattr(sys, "_get" + "frame")(), ASKED_BY)
    next(frames)
    return dict(mine), value


@only_shared
def test_a_dict_of_names_that_somebody_holds_is_not_emptied() -> None:
    def names() -> Iterator[Any]:
        while True:
            yield names_in(sys._getframe(1))

    kept, value = held_elsewhere(names())
    assert kept["value"] == value


def test_variables_are_let_go_of() -> None:
    def run() -> object:
        model = Model()
        reference = weakref.ref(model)
        assert look()
        del model
        return reference()

    assert run() is None


def test_names_of_a_class_s_own_kind_of_dict_are_not_asked() -> None:
    class Names(dict[str, Any]):
        def items(self) -> Any:
            raise AssertionError

    given = Names(look=look)
    exec("found = look()", {}, given)
    assert given["found"] == []
