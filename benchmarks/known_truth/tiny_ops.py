"""Two thousand ops on one element."""

from workload import Part, run, tiny_ops

hundred = tiny_ops()


def two_thousand() -> None:
    for _ in range(20):
        hundred.run()


# Wanted share 0: once a step, however long it takes.
run([(Part(share="overhead", run=two_thousand), 0.0)])
