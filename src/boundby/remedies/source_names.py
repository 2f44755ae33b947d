"""What a piece of source says of its tensors: which names come from outside it, and how many operations it has."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

# Names that stand for modules in nearly every script: what they hold are functions and numbers, no tensors.
_MODULES = frozenset({"torch", "F", "nn", "math", "np", "numpy", "functional", "operator"})
_REDUCING = frozenset({"sum", "mean", "max", "min", "amax", "amin", "norm", "prod", "var", "std", "mse_loss"})
# Calls that compute nothing: they make views, or ask for a size.
_FREE = frozenset(
    {"view", "reshape", "transpose", "permute", "unsqueeze", "squeeze", "expand", "flatten", "size", "detach", "t"}
    | {"float", "sqrt", "int", "len", "item", "numel", "unflatten", "view_as", "expand_as"}
)


@dataclass(frozen=True, slots=True)
class SourceNames:
    """``outside`` are the names and attributes read before they are assigned; they may be tensors or numbers.

    Names in capitals, of three letters or more, are taken for constants.

    ``operations`` counts operators and calls on them; ``ends_reduced`` says whether the last one is a reduction.
    """

    outside: frozenset[str]
    operations: int
    ends_reduced: bool


def names_of(lines: Sequence[str]) -> SourceNames | None:
    """Names and operations of a few source lines; None where one of them is not a whole statement.

    Args:
        lines: their texts, in order.
    """
    statements: list[ast.stmt] = []
    for line in lines:
        text = textwrap.dedent(line).strip()
        # A return is a statement only inside a function.
        text = text.removeprefix("return ") if text.startswith("return ") else text
        try:
            parsed = ast.parse(text).body
        except (SyntaxError, ValueError):
            return None
        for one in parsed:
            statements += one.body if isinstance(one, ast.FunctionDef) else [one]
    if not statements:
        return None
    found = _Found()
    for statement in statements:
        found.visit(statement)
    return SourceNames(frozenset(found.outside), found.operations, _is_reduced(statements[-1]))


class _Found(ast.NodeVisitor):
    def __init__(self) -> None:
        self.outside: set[str] = set()
        self.assigned: set[str] = set()
        self.operations = 0

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self.assigned.update(one.id for one in ast.walk(target) if isinstance(one, ast.Name))

    def visit_For(self, node: ast.For) -> None:
        # What is looped over computes nothing; what it gives comes from outside.
        for statement in node.body:
            self.visit(statement)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.operations += 1
        self._use(node.target)
        self.visit(node.value)
        self.assigned.update(one.id for one in ast.walk(node.target) if isinstance(one, ast.Name))

    def visit_BinOp(self, node: ast.BinOp) -> None:
        self._operation(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        self._operation(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        self._operation(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        self.operations += name not in _FREE and not _is_number(node)
        if isinstance(node.func, ast.Attribute):
            self.visit(node.func.value)  # x.exp() reads x
        for one in (*node.args, *(word.value for word in node.keywords)):
            self.visit(one)

    def visit_Name(self, node: ast.Name) -> None:
        self._use(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._use(node)

    def _operation(self, node: ast.expr) -> None:
        if _is_number(node):
            return
        self.operations += 1
        self.generic_visit(node)

    def _use(self, node: ast.expr) -> None:
        if isinstance(node, (ast.Name, ast.Attribute)):
            text = ast.unparse(node)
            root = text.partition(".")[0]
            constant = len(text) > 2 and text.rpartition(".")[2].isupper()
            known = root in _MODULES or text == "self" or text in self.assigned
            if not constant and not known and "(" not in text:
                self.outside.add(text)
        else:
            self.visit(node)


def _is_number(node: ast.expr) -> bool:
    """Whether an expression holds constants and a module's functions of them alone."""
    return all(one.id in _MODULES for one in ast.walk(node) if isinstance(one, ast.Name))


def _is_reduced(statement: ast.stmt) -> bool:
    value = getattr(statement, "value", None)
    if not isinstance(value, ast.Call):
        return False
    name = value.func.attr if isinstance(value.func, ast.Attribute) else getattr(value.func, "id", "")
    return name in _REDUCING
