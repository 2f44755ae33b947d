"""What a C++ kernel that inductor generated moves and computes, read from its text.

Inductor writes each fused kernel as nests of loops over index variables. A kernel's arguments bear names that say
their part (``in_ptr0``, ``out_ptr1``, ``in_out_ptr0``), each access is an index expression in the loop variables, and
each operation on an element is one statement ``auto tmp3 = tmp1 * tmp2;``. That is enough to count what runs after
fusion: elements read and written (each once) and operations, recomputed ones included.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from boundby.capture.compiled.indices import (
    Span,
    UnreadableError,
    evaluate,
    points,
    reached,
    read_expression,
)

_SIGNATURE = re.compile(r'extern "C"\s+void\s+\w+\((.*?)\)\s*\{', re.DOTALL)
_PARAMETER = re.compile(r"(?:const\s+)?[\w:]+\s*(\*?)\s*(\w+)")
_POINTER = re.compile(r"(?:in_out_ptr|in_ptr|out_ptr)\d+")
_ALIAS = re.compile(r"auto (\w+) = (in_out_ptr\d+|in_ptr\d+|out_ptr\d+);")
_LOOP = re.compile(r"for\s*\(\s*(?:int64_t|long|int|auto)\s+(\w+)\s*=\s*(.+?);\s*\w+\s*<\s*(.+?);")
_PART_OF_A_LOOP = re.compile(r"_(?:tail|inner)$")
_INDEX = re.compile(r"\s*(?:\[|\+\s*)static_cast<int64_t>\(")
_STATEMENT = re.compile(r"(?:const )?auto tmp\d+ = (.+);$")
# Values, casts, selections: no arithmetic, as eager counting has it.
_NO_ARITHMETIC = re.compile(
    r"loadu\(|::from\(|blendv\(|\?|arange\(|^int(?:32|64)_t\(|^static_cast|^c10::convert"
    r"|\.template cast<|convert<|^\[&\]"
)
_ARITHMETIC = re.compile(
    r"\btmp\d+ ?(?:[-+*/%^]|[<>=!]=?|&&?|\|\|?|<<|>>) ?tmp\d+|[(!~ -]-?(?<!\w)[-~!]tmp\d+|^[-~!]tmp\d+"
    r"|\btmp\d+\.\w+\(|\b(?:std|at::vec|calc|c10)(?:::|_)\w+\(.*\btmp\d+|\b\w+_propagate_nan\("
)


@dataclass(frozen=True, slots=True)
class ArrayFact:
    """An array given to a kernel: elements from its begin to the end of its memory, bytes an element, whose memory."""

    elements: int
    width: int
    storage: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCost:
    """Bytes that a kernel reads and writes (each distinct element once) and its elementwise operations."""

    bytes_read: int
    bytes_written: int
    pointwise_flops: int


@dataclass(frozen=True, slots=True)
class _Access:
    pointer: str
    index: ast.expr | None
    loops: tuple[Span, ...]
    writes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelText:
    """A kernel as it was read: its parameters in order, its accesses in order, and its operations by loop nest."""

    parameters: tuple[str, ...]
    pointers: frozenset[str]
    accesses: tuple[_Access, ...]
    operations: tuple[tuple[Span, ...], ...]

    def cost(self, arguments: Sequence[ArrayFact | int | float]) -> KernelCost:
        """The cost of one call.

        Args:
            arguments: what the kernel is called with, in order: facts of arrays, and numbers.

        Raises:
            UnreadableError: the arguments are not the kernel's, or loops have bounds that are not known.
        """
        if len(arguments) != len(self.parameters):
            raise UnreadableError(f"{len(arguments)} arguments for {len(self.parameters)}")
        given = dict(zip(self.parameters, arguments, strict=True))
        scalars = {name: one for name, one in given.items() if isinstance(one, int)}
        arrays = {name: one for name, one in given.items() if isinstance(one, ArrayFact)}
        if arrays.keys() != self.pointers:
            raise UnreadableError("other arguments than the kernel has")
        reads: dict[str, list[_Access]] = {}
        writes: dict[str, list[_Access]] = {}
        fresh: set[int | str] = set()
        for one in self.accesses:
            memory = arrays[one.pointer].storage or one.pointer
            if one.writes:
                writes.setdefault(one.pointer, []).append(one)
                if one.pointer not in reads:
                    fresh.add(memory)
            elif one.pointer in reads or memory not in fresh:
                # What a kernel reads where it wrote before, it need not fetch.
                reads.setdefault(one.pointer, []).append(one)
        read = sum(arrays[name].width * _extent(each, scalars, arrays[name]) for name, each in reads.items())
        written = sum(arrays[name].width * _extent(each, scalars, arrays[name]) for name, each in writes.items())
        operations = sum(points(_ranges(loops, scalars)) for loops in self.operations)
        return KernelCost(bytes_read=read, bytes_written=written, pointwise_flops=operations)


def _extent(accesses: Sequence[_Access], scalars: Mapping[str, int], array: ArrayFact) -> int:
    if any(one.index is None for one in accesses):
        return array.elements
    return reached(
        [(one.index, _ranges(one.loops, scalars)) for one in accesses if one.index is not None], scalars, array.elements
    )


def _ranges(loops: Sequence[Span], scalars: Mapping[str, int]) -> dict[str, range]:
    return {one.name: range(int(evaluate(one.begin, scalars)), int(evaluate(one.end, scalars))) for one in loops}


def read_kernel(text: str) -> KernelText:
    """Read the text of a generated C++ kernel.

    Raises:
        UnreadableError: it is not of the shape that fused kernels have, as templates for products are not.
    """
    signature = _SIGNATURE.search(text)
    if signature is None:
        raise UnreadableError("no kernel")
    parameters, pointers = _parameters(signature.group(1))
    aliases = {name: name for name in pointers}
    accesses: dict[tuple[str, str, tuple[Span, ...], bool], _Access] = {}
    operations: list[tuple[Span, ...]] = []
    # Of each open brace: the loop it belongs to, and whether it repeats another branch for the elements left over.
    braces: list[tuple[Span | None, bool]] = []
    upcoming: Span | None = None
    repeats = False
    for line in text[signature.end() :].splitlines():
        line = line.strip()
        if line.startswith(("for(", "for (")):
            upcoming = _loop(line)
        elif line.startswith("if(C10_UNLIKELY"):
            repeats = True
        alias = _ALIAS.match(line)
        if alias is not None:
            aliases[alias.group(1)] = alias.group(2)
            continue
        loops = tuple(one for one, _ in braces if one is not None)
        for access in _accesses(line, aliases, loops):
            key = (access.pointer, "" if access.index is None else ast.dump(access.index), loops, access.writes)
            accesses.setdefault(key, access)
        statement = _STATEMENT.match(line)
        if statement is not None and not any(again for _, again in braces) and _computes(statement.group(1)):
            operations.append(loops)
        opened = line.count("{") - line.count("}")
        for _ in range(opened):
            braces.append((upcoming, repeats))
            upcoming, repeats = None, False
        for _ in range(-opened):
            if braces:
                braces.pop()
    return KernelText(
        parameters=parameters,
        pointers=frozenset(pointers),
        accesses=tuple(accesses.values()),
        operations=tuple(operations),
    )


def _parameters(text: str) -> tuple[tuple[str, ...], list[str]]:
    names, pointers = [], []
    for part in text.split(","):
        found = _PARAMETER.fullmatch(part.strip())
        if found is None:
            raise UnreadableError(part)
        names.append(found.group(2))
        if found.group(1):
            if not _POINTER.fullmatch(found.group(2)):
                raise UnreadableError(part)
            pointers.append(found.group(2))
    return tuple(names), pointers


def _loop(line: str) -> Span | None:
    """The loop that a line begins; None for one over the lanes of a vector, over what is left over, or over threads."""
    found = _LOOP.match(line)
    if found is None:
        raise UnreadableError(line)
    name, begin, end = found.groups()
    if _PART_OF_A_LOOP.search(name) or not name.startswith("x"):
        return None
    return Span(name, _shared(begin), _shared(end))


_expressions: dict[str, ast.expr] = {}


def _shared(text: str) -> ast.expr:
    """One tree for equal texts, so that equal loops compare equal."""
    found = _expressions.get(text)
    if found is None:
        found = _expressions[text] = read_expression(text)
    return found


def _accesses(line: str, aliases: Mapping[str, str], loops: tuple[Span, ...]) -> list[_Access]:
    if "ptr" not in line:
        return []
    found = []
    for word in re.finditer(r"\b(?:in_out_ptr|in_ptr|out_ptr)\d+\b", line):
        pointer = aliases.get(word.group())
        if pointer is None:
            raise UnreadableError(line)
        index: ast.expr | None = None
        begin = _INDEX.match(line, word.end())
        after = word.end()
        if begin is not None:
            after = _closing(line, begin.end())
            index = read_expression(_indexed(line[begin.end() : after]))
        before, rest = line[: word.start()], line[after:]
        if "atomic_add" in before:
            found += [_Access(pointer, index, loops, False), _Access(pointer, index, loops, True)]
        else:
            writes = (
                (not before and re.match(r"\)?\]?\s*[-+*]?=(?!=)", rest) is not None)
                or before.endswith((".store(",))
                or ("transpose_mxn<" in before and not before.endswith(">("))
            )
            found.append(_Access(pointer, index, loops, writes))
    return found


def _indexed(text: str) -> str:
    """An index expression with elements of loaded vectors as plain names."""
    return re.sub(r"\b(tmp\d+)\[[^\]]*\]", r"\1", text)


def _closing(line: str, at: int) -> int:
    depth = 1
    while at < len(line):
        depth += {"(": 1, ")": -1}.get(line[at], 0)
        if depth == 0:
            return at
        at += 1
    raise UnreadableError(line)


def _computes(value: str) -> bool:
    return _NO_ARITHMETIC.search(value) is None and _ARITHMETIC.search(value) is not None
