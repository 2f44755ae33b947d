"""The variables of a running function or module, where they can be read without its noticing: the rule for all."""

from __future__ import annotations

import builtins
import dis
import functools
import inspect
import linecache
import sys
from types import CodeType, FrameType
from typing import Any, NamedTuple

# Before Python 3.13 a function's variables are copied into a dict that is one and the same for as long as it runs.
_SHARED = sys.version_info < (3, 13)
# Builtins that hand out that dict, or let other code write to it; `_harmless` says how they are called without that.
_GIVING = (locals, vars, eval, exec)
_GIVING_NAMES = frozenset({"locals", "vars", "eval", "exec"})
# What a frame is asked for by; whoever has a frame can pass it on to others, who ask it for the dict.
_FRAME_NAMES = frozenset({"_getframe", "currentframe", "f_locals"})
# The builtins as pytest puts them into functions that assert: it looks at the dict and lets go of it.
_OF_PYTEST = "@py_builtins"
_GLOBAL, _ATTRIBUTE = frozenset({"LOAD_GLOBAL", "LOAD_NAME"}), frozenset({"LOAD_ATTR", "LOAD_METHOD"})
# Instructions that leave a dict on top of the stack, as the displays {...} end.
_DICT_MADE = frozenset({"BUILD_MAP", "BUILD_CONST_KEY_MAP", "DICT_UPDATE"})
# Instructions between a function and its call; further ones are not followed.
_LONGEST_CALL = 100
_SECOND = 2
# References to the dict of a frame's names that are ours and the frame's own: a variable, an argument, the frame.
_OURS = 3


def names_in(frame: FrameType, *, called_us: bool = False) -> list[tuple[str, Any]]:
    """Local names of a function's frame, or of the module at its outermost; none where that could be noticed.

    Before Python 3.13, a function's names are copied into a dict that its frame keeps: the very one that ``locals()``
    has given or will give. Asking for it brings it up to date, which changes what a script may have put aside. So these
    are left alone:

    - functions that call what gives them the dict, or ask for a frame;
    - functions in a file that asks frames for the dict, or whose text is not there to tell;
    - functions while a tracer is on, unless they called us themselves: what it does to the dict, as a debugger does in
      the midst of a line, is written back into the variables after each of its own calls.

    The copy would keep the user's tensors alive for as long as the function runs: it is emptied again, unless somebody
    else holds it.

    Args:
        frame: a function's or a module's that runs.
        called_us: whether the frame's own code called boundby, so that no tracer's call stands in between.
    """
    copied = bool(frame.f_code.co_flags & inspect.CO_OPTIMIZED)
    if copied and not _SHARED:
        return list(frame.f_locals.items())
    if copied and not (_untraced(called_us) and _leaves_dict_alone(frame)):
        return []
    names = frame.f_locals
    # Another mapping is the user's own, as exec was given it: its methods are not for us to run.
    if type(names) is not dict:
        return []
    found = list(names.items())
    if copied and sys.getrefcount(names) <= _OURS:
        names.clear()
    return found


def _untraced(called_us: bool) -> bool:
    return called_us or (sys.gettrace() is None and sys.getprofile() is None)


def _leaves_dict_alone(frame: FrameType) -> bool:
    code = frame.f_code
    if _asks_for_frames(code) or _others_look(code.co_filename):
        return False
    return not any(_gives(frame, load) for load in _loads(code))


class _Call(NamedTuple):
    """With how many arguments something is called; whether the second is a dict display, which is never None."""

    arguments: int
    dict_second: bool


class _Load(NamedTuple):
    """A global name, or an attribute named as a giving builtin is, that a function's code loads.

    ``owner`` is the global name whose attribute it is: None for a global, empty where that is another expression.
    ``call`` is how it is called right there; None where it isn't, or may be called elsewhere.
    """

    name: str
    owner: str | None
    call: _Call | None


def _gives(frame: FrameType, load: _Load) -> bool:
    """Whether a builtin that gives the dict is what a name stands for now, called in a way that does so."""
    if load.owner is None:
        value = _global(frame, load.name)
    else:
        value = vars(builtins).get(load.name) if _is_builtins(frame, load.owner) else None
    return any(value is one for one in _GIVING) and not _harmless(value, load.call)


def _harmless(giving: Any, call: _Call | None) -> bool:
    """Whether a builtin leaves the dict alone: eval and exec take it where no dict is given, or None in its place."""
    if call is None or giving is locals:
        return False
    return call.arguments >= 1 if giving is vars else call.dict_second


def _is_builtins(frame: FrameType, owner: str) -> bool:
    """Whether an attribute's owner is the module of builtins; unless it is a global name, it may be where one is."""
    if owner:
        return _global(frame, owner) is builtins
    return not {"builtins", "__builtins__"}.isdisjoint(frame.f_code.co_names)


def _global(frame: FrameType, name: str) -> Any:
    """What a name stands for in a function, by the dicts' own methods: exec may have been given another kind."""
    return dict.get(frame.f_globals, name, dict.get(frame.f_builtins, name))


@functools.cache
def _loads(code: CodeType) -> frozenset[_Load]:
    instructions = list(dis.get_instructions(code))
    found: set[_Load] = set()
    for at, one in enumerate(instructions):
        if one.opname in _GLOBAL:
            found.add(_Load(one.argval, None, _call(instructions, at + 1)))
        elif one.opname in _ATTRIBUTE and one.argval in _GIVING_NAMES:
            before = instructions[at - 1]
            owner = before.argval if before.opname in _GLOBAL else ""
            if owner != _OF_PYTEST:
                found.add(_Load(one.argval, owner, _call(instructions, at + 1)))
    return frozenset(found)


def _call(instructions: list[dis.Instruction], begin: int) -> _Call | None:
    """How what was loaded before ``begin`` is called, by code in a straight line from there."""
    above = 0  # what lies on the stack above it
    second = ""  # what made the second of that
    for one in instructions[begin : begin + _LONGEST_CALL]:
        if one.opcode in dis.hasjrel or one.opcode in dis.hasjabs:
            return None
        if one.opname == "SWAP":
            return None
        if one.opname == "PRECALL":  # Python 3.11's: half of a call
            continue
        if one.opname == "CALL":
            assert one.arg is not None
            if above == one.arg:
                return _Call(above, above >= _SECOND and second in _DICT_MADE)
            above -= one.arg + 1
        else:
            above += dis.stack_effect(one.opcode, one.arg, jump=False)
        if above < 0:
            return None
        if above == _SECOND:
            second = one.opname
    return None


@functools.cache
def _asks_for_frames(code: CodeType) -> bool:
    """Whether a function, or one inside of it, names what a frame is asked for by."""
    if not _FRAME_NAMES.isdisjoint(code.co_names):
        return True
    return any(_asks_for_frames(one) for one in code.co_consts if type(one) is CodeType)


@functools.cache
def _others_look(path: str) -> bool:
    """Whether a file asks for the names of frames anywhere; also where there is no text of it."""
    lines = linecache.getlines(path)
    return not lines or any("f_locals" in line for line in lines)
