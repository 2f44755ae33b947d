"""What ships, and what the environment is made of."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import boundby

ROOT = Path(__file__).parents[2]
CHECKED_EXTRAS = ("dev", "docs", "examples", "notebook", "plots")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    """The wheel of this checkout, built with what is installed and without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    command = ["-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(folder), "."]
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


def metadata(wheel: zipfile.ZipFile, name: str) -> str:
    return wheel.read(f"boundby-{boundby.__version__}.dist-info/{name}").decode()


def test_the_wheel_is_typed(wheel: zipfile.ZipFile) -> None:
    assert "boundby/py.typed" in wheel.namelist()


def test_the_wheel_holds_every_module_and_no_test(wheel: zipfile.ZipFile) -> None:
    modules = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src" / "boundby").rglob("*.py")}
    shipped = {name for name in wheel.namelist() if name.endswith(".py")}
    assert shipped == modules


def test_the_wheel_has_the_console_script_and_the_license(wheel: zipfile.ZipFile) -> None:
    assert "boundby = boundby.cli.main:main" in metadata(wheel, "entry_points.txt")
    assert "Apache License" in metadata(wheel, "licenses/LICENSE")
    assert "License-Expression: Apache-2.0" in metadata(wheel, "METADATA")


def project() -> dict[str, Any]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)


def constraints() -> dict[str, Requirement]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(pin.name): pin for pin in pins}


def direct_requirements() -> list[Requirement]:
    table = project()
    extras = table["project"]["optional-dependencies"]
    lines = [*table["project"]["dependencies"], *table["build-system"]["requires"]]
    lines += [line for extra in CHECKED_EXTRAS for line in extras[extra]]
    return [Requirement(line) for line in lines]


def test_every_constraint_is_one_version() -> None:
    for pin in constraints().values():
        assert [part.operator for part in pin.specifier] == ["=="], str(pin)


@pytest.mark.parametrize("requirement", direct_requirements(), ids=lambda requirement: requirement.name)
def test_the_checks_pin_what_the_project_asks_for(requirement: Requirement) -> None:
    pin = constraints()[canonicalize_name(requirement.name)]
    (version,) = (part.version for part in pin.specifier)
    assert requirement.specifier.contains(version)


def test_continuous_integration_can_be_started() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
