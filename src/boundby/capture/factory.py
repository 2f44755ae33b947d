"""Load ``pkg.module:make`` or ``FILE.py:make``, call it, and make of what it returns something to count."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from boundby.results.errors import EXIT_USAGE, BoundbyError
from boundby.results.language import tr

DEFAULT_NAME = "make"


@dataclass(frozen=True, slots=True, kw_only=True)
class FactoryTarget:
    """What the user named: a module or file, and the function in it."""

    home: str
    name: str
    is_module: bool

    def __str__(self) -> str:
        return f"{self.home}:{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One call to count: ``fn(*args, **kwargs)``."""

    fn: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any]


def parse_target(words: str, *, is_module: bool, command: str = "count") -> FactoryTarget:
    """The target from ``pkg.module:make`` or ``FILE.py:make``; without a name, ``make`` is meant.

    ``command`` is the one that advice is given for.

    Raises:
        BoundbyError: ``no-such-target`` where no module or file is named, or the file does not exist.
    """
    home, colon, name = words.rpartition(":")
    if not colon or (not is_module and os.path.exists(words)):
        home, name = words, DEFAULT_NAME
    name = name or DEFAULT_NAME
    if is_module:
        if not home or home.startswith(".") or "/" in home or home.endswith(".py"):
            raise _no_target(
                tr("{words} names no module", words=repr(words)),
                tr("A file is given without -m: {command}.", command=f"boundby {command} FILE.py:make"),
            )
    elif not os.path.isfile(home):
        looks_dotted = all(part.isidentifier() for part in home.split(".")) and not home.endswith(".py")
        advice = (
            tr("A module is given with -m: {command}.", command=f"boundby {command} -m {words}")
            if looks_dotted
            else tr("Check the path.")
        )
        raise _no_target(tr("there is no file {path}", path=repr(home)), advice)
    return FactoryTarget(home=home, name=name, is_module=is_module)


def load_factory(target: FactoryTarget, *, with_arguments: bool = False) -> Callable[..., Any]:
    """Import the target's module, or run its file under its own name, and find the function.

    ``with_arguments`` allows one that needs arguments; else there may be none without a default.

    What the module's code raises comes through unchanged.

    Raises:
        BoundbyError: ``no-such-target`` where there is no such module or name; ``bad-target`` for what is no function.
    """
    with arguments_of(target.home):
        module = _import_module(target.home) if target.is_module else _import_file(target.home)
    found: Any = module
    for part in target.name.split("."):
        if not hasattr(found, part):
            raise _missing_name(target, found, part)
        found = getattr(found, part)
    if not callable(found):
        raise BoundbyError(
            "bad-target",
            tr("{target} is {kind}, not a function", target=target, kind=_kind(found)),
            tr("Name a function that builds what is to be called."),
            status=EXIT_USAGE,
        )
    if _is_module(found):
        raise BoundbyError(
            "bad-target",
            tr("{target} is a module, and its inputs are not known", target=target),
            tr("Name a function that returns it with inputs. {more}", more=_shapes()),
            status=EXIT_USAGE,
        )
    needed = [] if with_arguments else _needed_arguments(found)
    if needed:
        raise BoundbyError(
            "bad-target",
            tr("{target} needs arguments: {names}", target=target, names=", ".join(needed)),
            tr("Name a function without arguments: it builds what is to be counted."),
            status=EXIT_USAGE,
        )
    factory: Callable[..., Any] = found
    return factory


@contextmanager
def arguments_of(name: str) -> Iterator[None]:
    """``sys.argv`` as ``python NAME`` has it: boundby's own words are nothing that the user's file should parse."""
    kept = list(sys.argv)
    sys.argv[:] = [name]
    try:
        yield
    finally:
        sys.argv[:] = kept


def work_from(made: Any, target: FactoryTarget) -> Work:
    """The call that a factory's result stands for.

    Raises:
        BoundbyError: ``bad-target`` where it stands for none.
    """
    if isinstance(made, (tuple, list)) and 2 <= len(made) <= 3 and callable(made[0]):
        fn, given, *rest = made
        keywords = rest[0] if rest else {}
        if isinstance(keywords, Mapping):
            if isinstance(given, Mapping) and not rest:
                return Work(fn=fn, kwargs=dict(given))
            args = tuple(given) if isinstance(given, (tuple, list)) else (given,)
            return Work(fn=fn, args=args, kwargs=dict(keywords))
    elif callable(made) and not _is_module(made):
        return Work(fn=made, kwargs={})
    what = tr("a module without inputs") if _is_module(made) else _kind(made)
    raise BoundbyError(
        "bad-target", tr("{target} returned {what}", target=target, what=what), _shapes(), status=EXIT_USAGE
    )


def backward_of(work: Work) -> Work:
    """The same call with the backward pass of its loss.

    The loss is the result's ``loss``, as an attribute or key; else the result itself where it is one number; else the
    sum of all its floating-point tensors that need gradients. Calling the result raises BoundbyError ``no-gradient``
    where nothing in it needs a gradient.
    """

    forward = work.fn

    def forward_and_backward(*args: Any, **kwargs: Any) -> Any:
        result = forward(*args, **kwargs)
        _loss_of(result).backward()
        return result

    return Work(fn=forward_and_backward, args=work.args, kwargs=work.kwargs)


def _loss_of(result: Any) -> Any:
    import torch
    from torch.utils._pytree import tree_leaves

    named = result.get("loss") if isinstance(result, Mapping) else getattr(result, "loss", None)
    if isinstance(named, torch.Tensor) and named.requires_grad:
        return named if named.numel() == 1 else named.sum()
    ends = [one for one in tree_leaves(result) if isinstance(one, torch.Tensor) and one.requires_grad]
    if not ends:
        raise BoundbyError(
            "no-gradient",
            tr("nothing in the result needs a gradient, so there is no backward pass"),
            tr(
                "Leave out {option}, or let a parameter require gradients outside {context}.",
                option="--backward",
                context="torch.no_grad()",
            ),
        )
    if len(ends) == 1 and ends[0].numel() == 1:
        return ends[0]
    # A complex number is no loss, its real part is.
    sums = [(one.real if one.is_complex() else one).sum() for one in ends]
    total = sums[0]
    for one in sums[1:]:
        total = total + one
    return total


def _import_module(name: str) -> Any:
    if not sys.flags.safe_path:
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise _no_target(
                tr("there is no module {name}", name=repr(error.name)),
                tr("Modules are looked for in the working directory and {path}.", path="sys.path"),
            ) from None
        raise


def _import_file(path: str) -> Any:
    full = os.path.abspath(path)
    if not sys.flags.safe_path:
        sys.path.insert(0, os.path.dirname(full))
    name = Path(full).stem
    name = name if name.isidentifier() and name not in sys.modules else f"_counted_{abs(hash(full))}"
    from importlib.machinery import SourceFileLoader

    loader = SourceFileLoader(name, full)
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    # There before it runs, so that dataclasses and pickling find it.
    sys.modules[name] = module
    loader.exec_module(module)
    return module


def _missing_name(target: FactoryTarget, inside: Any, part: str) -> BoundbyError:
    home = getattr(inside, "__name__" if isinstance(inside, ModuleType) else "__module__", None)
    own = [
        name
        for name, value in getattr(inside, "__dict__", {}).items()
        if callable(value) and not name.startswith("_") and getattr(value, "__module__", None) == home
    ]
    near = get_close_matches(part, own, n=3, cutoff=0.6) or own[:5]
    advice = (
        tr("It has: {names}.", names=", ".join(near))
        if near
        else tr("Name a function in it: {form}.", form="MODULE:FUNCTION")
    )
    return _no_target(tr("{module} has no {name}", module=target.home, name=repr(target.name)), advice)


def _needed_arguments(function: Callable[..., Any]) -> list[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # Some functions in C do not tell; calling them will.
        return []
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [one.name for one in parameters if one.default is one.empty and one.kind not in optional]


def _no_target(message: str, advice: str) -> BoundbyError:
    return BoundbyError("no-such-target", message, advice, status=EXIT_USAGE)


def _is_module(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, (tuple, list)):
        kind, length = type(value).__name__, str(len(value))
        if not value:
            return tr("a {kind} of {length}", kind=kind, length=length)
        first = type(value[0]).__name__
        return tr("a {kind} of {length} that begins with {first}", kind=kind, length=length, first=first)
    return tr("an object of type {kind}", kind=type(value).__name__)


def _shapes() -> str:
    return tr(
        "It should return a callable without arguments, or {pair}: a tuple or list of inputs is the positional "
        "arguments, a dict the keyword arguments, anything else the only argument.",
        pair="(module, inputs)",
    )
