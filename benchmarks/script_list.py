"""The scripts that the benchmarks run: those in benchmarks/scripts, and those of a folder with a specs.py."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path

from processes import HERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A script with its arguments and environment; ``steps`` is None where the script has no switch for them."""

    name: str
    path: Path
    args: tuple[str, ...] = ()
    steps: int | None = None
    expected: str | None = None
    sure: bool = False

    @property
    def command(self) -> list[str]:
        return [str(self.path), *self.args]

    def environment(self, losses: Path, steps: int | None = None) -> dict[str, str]:
        """What the script needs: where its losses go, and for how many steps it runs."""
        wanted = steps or self.steps
        return {
            "HF_HUB_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "ZOO_TIMES": str(losses),
            **({"ZOO_STEPS": str(wanted)} if wanted and self.steps else {}),
        }


def scripts(folder: Path | None, names: list[str]) -> list[Script]:
    """All scripts, or those named, from ``folder`` (where one is given) and from benchmarks/scripts."""
    found = []
    if folder is not None:
        folder = folder.resolve()
        specs_file = folder / "specs.py"
        spec = importlib.util.spec_from_file_location("specs", specs_file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found = [
            Script(
                name=one["name"],
                path=folder / f"{one['file']}.py",
                args=tuple(one.get("args", ())),
                steps=one["steps"],
                expected=one["expected"]["bound"],
                sure=one["expected"]["sure"],
            )
            for one in module.SPECS
        ]
    found += [Script(name=path.stem, path=path) for path in sorted((HERE / "scripts").glob("*.py"))]
    unknown = set(names) - {script.name for script in found}
    if unknown:
        raise SystemExit(f"no such script: {', '.join(sorted(unknown))}; there are {', '.join(s.name for s in found)}")
    return [script for script in found if not names or script.name in names]


def losses(file: Path, stdout: str) -> str:
    """All losses of a run, to the last bit: from the file the script wrote them to, or from its ``final loss`` line."""
    if file.exists():
        curves = [row["curve"] for row in map(json.loads, file.read_text().splitlines()) if row.get("curve")]
        if curves:
            return json.dumps(curves[-1])
    return "\n".join(line for line in stdout.splitlines() if line.startswith("final loss"))
