"""Index expressions of generated kernels: how many different elements they reach over the ranges of their loops."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from boundby.capture.costs.traffic import covered_elements

# Beyond this many points an expression that is not affine is bounded by the number of points.
_ENUMERATION_LIMIT = 1 << 20

_SPELLINGS = (
    (re.compile(r"static_cast<\w+>\("), "("),
    (re.compile(r"c10::convert<\w+>\("), "("),
    (re.compile(r"c10::div_floor_integer\("), "_div("),
    (re.compile(r"std::(min|max)\("), r"_\1("),
    (re.compile(r"\b(\d+)(?:LL?|UL?L?)\b"), r"\1"),
    # Lanes of a vector, and the elements left over: the loop they belong to is taken as running over all of them.
    (re.compile(r"\b(\w+?)_tail\b"), r"\1"),
    (re.compile(r"\b\w+?_inner\b"), "0"),
)

_LOADED = re.compile(r"tmp\d+")

_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.floordiv,  # of integers, none negative, in C++
    ast.Mod: operator.mod,
}
_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "_div": operator.floordiv,
    "_min": np.minimum,
    "_max": np.maximum,
}


class UnreadableError(Exception):
    """Generated code that is not of the known shape."""


@dataclass(frozen=True, slots=True)
class Span:
    """A loop: its variable, from ``begin`` to before ``end`` (both expressions)."""

    name: str
    begin: ast.expr
    end: ast.expr


def read_expression(text: str) -> ast.expr:
    """The syntax tree of a C++ integer expression.

    Raises:
        UnreadableError: it is none that can be read.
    """
    for pattern, spelling in _SPELLINGS:
        text = pattern.sub(spelling, text)
    try:
        return ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise UnreadableError(text) from error


def evaluate(expression: ast.expr, values: Mapping[str, Any]) -> Any:
    """The value of an expression, an integer or an array of them.

    Raises:
        UnreadableError: it holds a name without a value, or what is no integer arithmetic.
    """
    match expression:
        case ast.Constant(value=int() as value):
            return value
        case ast.Name(id=name) if name in values:
            return values[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -evaluate(operand, values)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            try:
                return _OPERATORS[type(op)](evaluate(left, values), evaluate(right, values))
            except ZeroDivisionError as error:
                raise UnreadableError(ast.unparse(expression)) from error
        case ast.Call(func=ast.Name(id=name), args=[left, right]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](evaluate(left, values), evaluate(right, values))
    raise UnreadableError(ast.unparse(expression))


def names_in(expression: ast.expr) -> set[str]:
    """The variables that an expression holds."""
    functions = {id(node.func) for node in ast.walk(expression) if isinstance(node, ast.Call)}
    return {node.id for node in ast.walk(expression) if isinstance(node, ast.Name) and id(node) not in functions}


def points(ranges: Mapping[str, range]) -> int:
    """How often the body of nested loops runs."""
    return prod(len(one) for one in ranges.values())


def reached(
    accesses: Iterable[tuple[ast.expr, Mapping[str, range]]], scalars: Mapping[str, int], available: int
) -> int:
    """How many different elements accesses of one array reach together.

    Args:
        accesses: index expressions with the ranges of the loops around them. One that depends on loaded values
            reaches as many as the loops have points.
        scalars: the kernel's integer arguments.
        available: elements from the array's begin to the end of its memory.

    Raises:
        UnreadableError: an index holds a variable that is neither of these.
    """
    grids = []
    total = 0
    for expression, ranges in accesses:
        inside = {name: one for name, one in ranges.items() if name in names_in(expression)}
        if any(len(one) == 0 for one in ranges.values()):
            continue
        others = names_in(expression) - inside.keys() - scalars.keys()
        if others:
            if not all(_LOADED.fullmatch(name) for name in others):
                raise UnreadableError(ast.unparse(expression))
            total += points(ranges)
            continue
        line = _affine(expression, scalars)
        if line is not None:
            offset = line.pop("", 0) + sum(line.get(name, 0) * one.start for name, one in inside.items())
            steps = [abs(line.get(name, 0)) for name in inside]
            offset += sum(min(0, line.get(name, 0)) * (len(one) - 1) for name, one in inside.items())
            grids.append((offset, tuple(len(one) for one in inside.values()), tuple(steps)))
        elif points(inside) <= _ENUMERATION_LIMIT:
            total += _distinct(expression, inside, scalars)
        else:
            total += points(inside)
    return min(available, total + (covered_elements(grids) if grids else 0))


def _affine(expression: ast.expr, scalars: Mapping[str, int]) -> dict[str, int] | None:
    """The factor of each variable, the constant under an empty name; None where it is not affine."""
    match expression:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
            one, other = _affine(left, scalars), _affine(right, scalars)
            if one is None or other is None:
                return None
            sign = 1 if isinstance(op, ast.Add) else -1
            return {name: one.get(name, 0) + sign * other.get(name, 0) for name in one.keys() | other.keys()}
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            one, other = _affine(left, scalars), _affine(right, scalars)
            if one is None or other is None:
                return None
            if one.keys() - {""}:
                one, other = other, one
            if one.keys() - {""}:
                return None
            return {name: one.get("", 0) * factor for name, factor in other.items()}
        case ast.Name(id=name) if name not in scalars:
            return {name: 1}
    try:
        return {"": int(evaluate(expression, scalars))}
    except UnreadableError:
        return None


def _distinct(expression: ast.expr, ranges: Mapping[str, range], scalars: Mapping[str, int]) -> int:
    grid = np.meshgrid(*[np.arange(one.start, one.stop) for one in ranges.values()], indexing="ij", sparse=True)
    found = evaluate(expression, {**scalars, **dict(zip(ranges, grid, strict=True))})
    return len(np.unique(found))
