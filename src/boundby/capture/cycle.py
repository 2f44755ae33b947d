"""Find the natural step in a sequence of events (optimizer steps, outermost module calls)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

LONGEST = 512


def find_cycle(events: Sequence[Hashable], *, repeats: int = 3) -> int | None:
    """The smallest period the end of ``events`` has had for ``repeats`` turns, or None.

    A script with one optimizer has period 1; a GAN that steps its discriminator five times and then its generator, 6.
    Periods over three events need only two turns: that many equal events in a row are no accident.
    """
    count = len(events)
    for period in range(1, min(LONGEST, count // 2) + 1):
        turns = repeats if period <= 3 else 2
        needed = period * turns
        if needed > count:
            continue
        tail = events[count - needed :]
        if all(tail[i] == tail[i - period] for i in range(period, needed)):
            return period
    return None
