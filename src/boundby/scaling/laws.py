"""Laws of scaling: what more workers (threads, cores, devices) can bring, from the share of the work that stays serial.

Speed-ups are over one worker. A serial share is the share of the time that more workers do not shorten, 0 to 1.
"""

from __future__ import annotations

import math


def amdahl(serial_share: float, workers: float) -> float:
    """The speed-up of a job of fixed size: 1 / (s + (1 - s) / n); 1 / s without bound on the workers.

    ``amdahl(0.01, 8)`` is 7.48, ``amdahl(0.01, math.inf)`` is 100.

    Args:
        serial_share: s, the share of the one-worker time that stays serial, 0 to 1.
        workers: n, at least 1; ``math.inf`` gives the limit, infinite where nothing is serial.

    Raises:
        ValueError: an argument is out of its range.

    Source:
        G. M. Amdahl, "Validity of the single processor approach to achieving large scale computing capabilities",
        AFIPS Spring Joint Computer Conference (1967).
    """
    _check(serial_share, workers)
    time = serial_share + (1 - serial_share) / workers
    return math.inf if time == 0 else 1 / time


def gustafson(serial_share: float, workers: float) -> float:
    """The speed-up of a job that grows with the workers: s + (1 - s) n.

    ``gustafson(0.01, 132)`` is 130.69.

    Args:
        serial_share: s, the share of the time *on n workers* that is serial, 0 to 1; Amdahl's is of the time on one.
        workers: n, at least 1; ``math.inf`` gives infinity unless all is serial.

    Raises:
        ValueError: an argument is out of its range.

    Source:
        J. L. Gustafson, "Reevaluating Amdahl's law", Communications of the ACM 31 (1988), 532-533.
    """
    _check(serial_share, workers)
    return 1.0 if serial_share == 1 else serial_share + (1 - serial_share) * workers


def karp_flatt(speedup: float, workers: float) -> float:
    """The serial share that a measured speed-up amounts to: (1 / speedup - 1 / n) / (1 - 1 / n).

    It is all that did not get faster, for whatever reason: serial code, waiting, a memory bus that is shared. Negative
    where the speed-up is more than the workers (their caches add up), above 1 where they made it slower.

    Args:
        speedup: time on one worker over time on n, positive.
        workers: n, above 1.

    Raises:
        ValueError: an argument is out of its range.

    Source:
        A. H. Karp and H. P. Flatt, "Measuring parallel processor performance", Communications of the ACM 33 (1990),
        539-543.
    """
    if not (speedup > 0 and math.isfinite(speedup)):
        raise ValueError(f"a speed-up is positive and finite; got {speedup}")
    if not workers > 1:
        raise ValueError(f"a serial share needs more than one worker; got {workers}")
    return (1 / speedup - 1 / workers) / (1 - 1 / workers)


def usl(workers: float, contention: float, coherence: float) -> float:
    """The speed-up by the universal scalability law: n / (1 + a (n - 1) + b n (n - 1)).

    Without coherence cost it is Amdahl's law with ``contention`` as the serial share; with it, more workers than
    ``usl_peak`` make the job slower.

    Args:
        workers: n, at least 1.
        contention: a, the share spent waiting for what only one worker can have, 0 to 1.
        coherence: b, the cost for each pair of workers of keeping their data alike, as a share of the work; at least 0.

    Raises:
        ValueError: an argument is out of its range.

    Source:
        N. J. Gunther, "Guerrilla Capacity Planning" (Springer, 2007), chapter 4.
    """
    _check_usl(contention, coherence)
    if not (workers >= 1 and math.isfinite(workers)):
        raise ValueError(f"there is at least one worker, and finitely many; got {workers}")
    return workers / (1 + contention * (workers - 1) + coherence * workers * (workers - 1))


def usl_peak(contention: float, coherence: float) -> float:
    """The number of workers with the highest speed-up by ``usl``: sqrt((1 - a) / b), infinite where b is 0.

    Args:
        contention: a, 0 to 1.
        coherence: b, at least 0.

    Raises:
        ValueError: an argument is out of its range.

    Source:
        N. J. Gunther, "Guerrilla Capacity Planning" (Springer, 2007), chapter 4.
    """
    _check_usl(contention, coherence)
    return math.inf if coherence == 0 else max(1.0, math.sqrt((1 - contention) / coherence))


def _check(serial_share: float, workers: float) -> None:
    if not 0 <= serial_share <= 1:
        raise ValueError(f"a serial share lies within 0 and 1; got {serial_share}")
    if not workers >= 1:
        raise ValueError(f"there is at least one worker; got {workers}")


def _check_usl(contention: float, coherence: float) -> None:
    if not 0 <= contention <= 1:
        raise ValueError(f"contention is a share within 0 and 1; got {contention}")
    if not (coherence >= 0 and math.isfinite(coherence)):
        raise ValueError(f"the cost of coherence is at least 0; got {coherence}")
