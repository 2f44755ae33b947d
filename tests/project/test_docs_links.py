"""Links, anchors and files named in Markdown are there; commands shown in it have the options that they are given."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from boundby.cli.main import COMMANDS, LazyCommand

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *ROOT.glob("*.md"), *(ROOT / "benchmarks").glob("*.md")])
SOURCE = ROOT / "src" / "boundby"

LINK = re.compile(r"(?<!\!)\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
HOSTS = {
    "arxiv.org",
    "bokeh.org",
    "developer.nvidia.com",
    "docs.pytorch.org",
    "hta.readthedocs.io",
    "keepachangelog.com",
    "rocm.blogs.amd.com",
    "rocm.docs.amd.com",
    "semver.org",
    "ui.perfetto.dev",
    "www.cs.virginia.edu",
    "www.deepspeed.ai",
    "www.intel.com",
}
EXTERNAL = ("http://", "https://", "mailto:")


def names() -> list[str]:
    return [page.relative_to(ROOT).as_posix() for page in PAGES]


def without_code(text: str) -> str:
    """The text without fenced blocks and spans of code, in which nothing is a link."""
    return re.sub(r"`[^`\n]*`", lambda code: " " * len(code[0]), FENCE.sub("", text))


def slug(heading: str) -> str:
    """The anchor that MyST and GitHub give a heading."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    """All that a link can point at on a page; those that the build makes from dataclasses included."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    found = {slug(heading) for heading in re.findall(r"^#{1,4} (.+)$", text, re.MULTILINE)}
    return found | set(re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE))


def links(page: Path) -> list[str]:
    return LINK.findall(without_code(page.read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", PAGES, ids=names())
def test_links_lead_to_files_and_headings(page: Path) -> None:
    broken = []
    for link in links(page):
        if link.startswith(EXTERNAL):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        # Tables of schemas are made when the pages are built, which checks these links itself.
        if not target.exists() or (anchor and not anchor.startswith("schema-") and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=names())
def test_external_links_are_encrypted_and_whole(page: Path) -> None:
    assert [link for link in links(page) if link.startswith(("http://", "mailto:"))] == []
    assert [link for link in links(page) if link.startswith("https://") and "." not in link.split("/")[2]] == []


def test_hosts_that_are_linked_are_listed() -> None:
    """No test fetches a page. A host that is new has to be written down here."""
    linked = {link.split("/")[2] for page in PAGES for link in links(page) if link.startswith("https://")}
    assert linked == HOSTS


def test_every_page_is_in_the_contents() -> None:
    listed = {"index"}
    for page in DOCS.glob("*.md"):
        for tree in re.findall(
            r"^```\{toctree\}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
        ):
            listed |= {line.strip() for line in tree.splitlines() if line.strip() and not line.startswith(":")}
    assert {page.stem for page in DOCS.glob("*.md")} == listed


# A path of this project in a span of code: it begins with one of its folders.
NAMED_FILE = re.compile(r"`((?:src|docs|tests|benchmarks)/[\w./*-]+)`")


@pytest.mark.parametrize("page", PAGES, ids=names())
def test_files_that_are_named_exist(page: Path) -> None:
    named = NAMED_FILE.findall(page.read_text(encoding="utf-8"))
    assert [name for name in named if not list(ROOT.glob(name.rstrip("/")))] == []


def load(entry: LazyCommand) -> click.Command:
    module = __import__(entry.module, fromlist=[entry.attribute])
    return getattr(module, entry.attribute)


def options_of(command: str) -> set[str]:
    parameters = load(COMMANDS[command]).params
    return {name for one in parameters for name in (*one.opts, *one.secondary_opts)} | {"--help", "--lang"}


def shown_commands(text: str) -> Iterator[list[str]]:
    """The words of each `boundby COMMAND ...` in spans of code and in console blocks, up to a pipe or a comment."""
    spans = re.findall(r"(?<!`)`((?:\w+=\S+ )*boundby [^`\n]+)`", FENCE.sub("", text))
    lines = re.findall(r"^(?:\$ |\s+run: )((?:\w+=\S+ )*boundby .+)$", text, re.MULTILINE)
    for line in [*spans, *lines]:
        words = shlex.split(re.sub(r"[\[\]]", " ", line), comments=True, posix=True)
        words = words[words.index("boundby") + 1 :]
        stop = next((place for place, word in enumerate(words) if word in ("|", ">", "2>", "&&", ";")), len(words))
        if words[:stop]:
            yield words[:stop]


def unknown_options(words: list[str]) -> list[str]:
    """What a shown command has that the real one has not: its name, or options before the script."""
    while words and words[0] == "--lang":
        words = words[2:]
    if not words or not re.fullmatch(r"[a-z]+", words[0]):
        return [word for word in words[:1] if word.startswith("-") and word not in ("--help", "--version", "-h")]
    if words[0] not in COMMANDS:
        return [words[0]]
    known = options_of(words[0])
    found = []
    for word in words[1:]:
        # After the script, what follows is the script's own.
        if words[0] in ("run", "try", "check") and (word.endswith(".py") or word in ("SCRIPT", "-m")):
            break
        if word.startswith("-") and word != "-" and word.split("=")[0] not in known:
            found.append(f"{words[0]} {word}")
    return found


@pytest.mark.parametrize("page", PAGES, ids=names())
def test_commands_that_are_shown_have_these_options(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [wrong for words in shown_commands(text) for wrong in unknown_options(words)] == []


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (["run", "--stop", "train.py", "--anything"], []),
        (["run", "--no-such", "train.py"], ["run --no-such"]),
        (["--lang", "zh", "lab", "--quick"], []),
        (["explode"], ["explode"]),
    ],
)
def test_the_check_of_commands_sees_what_is_wrong(words: list[str], wrong: list[str]) -> None:
    assert unknown_options(words) == wrong


@pytest.mark.parametrize("page", PAGES, ids=names())
def test_python_that_is_shown_is_python(page: Path) -> None:
    for code in re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        ast.parse(code)


def variables_read() -> set[str]:
    found: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        found |= set(re.findall(r"[\"'](BOUNDBY_[A-Z_]+)[\"']", path.read_text(encoding="utf-8")))
    return found


def test_environment_variables_are_documented_and_there() -> None:
    documented = set(re.findall(r"`(BOUNDBY_[A-Z_]+)`", (DOCS / "cli.md").read_text(encoding="utf-8")))
    named = {name for page in PAGES for name in re.findall(r"BOUNDBY_[A-Z_]+", page.read_text(encoding="utf-8"))}
    assert named - variables_read() == set()
    assert documented - variables_read() == set()
