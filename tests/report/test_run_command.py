import pytest

from boundby.results.run_command import options_start, script_and_arguments


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("boundby run train.py --bs 64", (("train.py",), ("--bs", "64"))),
        ("boundby run -o out.json --steps 9 train.py -o own.json", (("train.py",), ("-o", "own.json"))),
        ("boundby --lang zh run train.py", (("train.py",), ())),
        ("boundby --lang=zh run -- -odd.py x", (("-odd.py",), ("x",))),
        ("boundby run --json -m package.train --lr 1", (("-m", "package.train"), ("--lr", "1"))),
        ("boundby run train", (("train",), ())),
        ("boundby run", None),
        ("boundby run -o report.json", None),
        ("boundby run -m", None),
        ("boundby run --", None),
        ("boundby try train.py", None),
        ("boundby lab measure", None),
        ("", None),
    ],
)
def test_the_script_of_a_run_and_its_arguments(command, found):
    assert script_and_arguments(tuple(command.split())) == found


def test_where_the_options_begin():
    assert options_start(("boundby", "run", "train.py")) == 2
    assert options_start(("boundby", "--lang", "zh", "try", "train.py")) == 4
    assert options_start(("boundby", "machine")) is None
