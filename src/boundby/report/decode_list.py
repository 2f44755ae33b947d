"""What `boundby decode` knows by name, in columns."""

from __future__ import annotations

import textwrap

from boundby.llm.engines import engine_names
from boundby.llm.formats import format_names
from boundby.llm.hardware import hardware_names
from boundby.llm.models import model_names
from boundby.report.page import page_width
from boundby.results.language import tr

_PATTERNS = ("int4-g128", "torchao-int4-g32", "4.25bpw", "4bit")


def render_lists(*, width: int) -> str:
    """The shipped models, hardware, engines and formats as text of at most ``width`` columns."""
    columns = page_width(width)
    groups = (
        (tr("Models"), model_names()),
        (tr("Hardware"), hardware_names()),
        (tr("Engines"), engine_names()),
        (tr("Formats"), (*format_names(), *_PATTERNS)),
    )
    lines: list[str] = []
    for title, names in groups:
        lines.append(title)
        lines += textwrap.wrap(
            ", ".join(name.replace(" ", "\0") for name in names),
            columns,
            initial_indent="  ",
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    return "\n".join(lines).replace("\0", " ") + "\n"
