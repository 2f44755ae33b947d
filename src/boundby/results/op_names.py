"""Names of ops as a person reads them; files keep the names that torch gives."""

from __future__ import annotations

import re

_OP = re.compile(r"[A-Za-z_]\w*(?:::|\.)[A-Za-z_][\w.]*")
_DEFAULT = ".default"


def op_name(name: str) -> str:
    """An op's name with its overload only where that says something.

    ``aten.mm`` of ``aten.mm.default`` and of ``aten::mm``, ``aten.add.Tensor`` of ``aten::add.Tensor``. What is no op's
    name, as that of a compiled region, stays as it is.

    Args:
        name: as torch or a saved file spells it.
    """
    if _OP.fullmatch(name) is None:
        return name
    return name.replace("::", ".", 1).removesuffix(_DEFAULT)
