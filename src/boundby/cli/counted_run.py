"""A script run for its counts alone: no ceiling is measured, which takes longer than counting does.

``python -m boundby.cli.counted_run LANGUAGE FILE [-m] SCRIPT [ARGS]`` writes a report to FILE whose counts and lines
hold; its times and shares are worth nothing, as no limit of the machine is known.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

from boundby.capture.schedule import Limits
from boundby.capture.script import run_target, split_command
from boundby.cli.main import write_error
from boundby.cli.run import check_seen
from boundby.results.errors import EXIT_DONE, BoundbyError
from boundby.results.language import choose_language

# One step is counted, and always the same one however fast the machine is: where batches differ in length, the counts
# are then those of the same batch on every run.
LIMITS = Limits(warmup=3, timed=3, watched=2, same_steps=True)


def main() -> NoReturn:
    """Run the script until enough of it was seen, write the report, and end with the script's status."""
    name, place, *words = sys.argv[1:]
    choose_language(name)
    module = words[1] if words[0] == "-m" else None
    target = split_command(words[2:] if module else words, module)

    from boundby.bound.explain import explain_trace
    from boundby.capture.session import Session
    from boundby.machine.describe import describe_machine
    from boundby.results.files import encode, write_new
    from boundby.results.machine import Machine

    session = Session(limits=LIMITS, stop=True)
    session.arm()
    try:
        outcome = run_target(target)
    finally:
        session.disarm()
    if session.foreign_process:
        sys.exit(outcome.status)
    trace = session.trace()
    try:
        check_seen(session, trace, target, outcome)
    except BoundbyError as error:
        if outcome.status == EXIT_DONE:
            write_error(error)
        sys.exit(outcome.status or error.status)
    assert trace is not None
    machine = Machine(description=describe_machine(threads=trace.threads), ceilings=())
    write_new(Path(place), encode(explain_trace(trace, machine)), force=True)
    sys.exit(outcome.status)


if __name__ == "__main__":
    main()
