"""Checks of how fast the processor runs, whether that moves, and of the clock that times are read from."""

from __future__ import annotations

from boundby.machine.checks.surroundings import Surroundings
from boundby.machine.checks.wording import joined
from boundby.results.doctor import Diagnosis, fine, problem, unread
from boundby.results.language import tr, trn
from boundby.results.machine import Finding
from boundby.results.units import format_ratio, format_si, format_time

# A tenth of the loops this much slower than the quickest is what is called unsteady everywhere in boundby.
_UNSTEADY = 1.25
# A clock further below the highest than a core usually is with all others at work.
_LOW_CLOCK = 0.8
# Limits that differ by less are the same, rounded.
_CAPPED = 0.99
_FEWEST_LOOPS = 20
# A reading that enters the kernel takes this long or longer; one that does not takes some 0.05 us.
_SLOW_READ_NS = 500
_COARSE_STEP_NS = 1000
# Their readings stay out of the kernel on x86-64, AArch64, KVM, Hyper-V, RISC-V and POWER.
_GOOD_SOURCES = (
    *("tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "riscv_clocksource", "timebase"),
)
_HEAT_EVENTS_AN_HOUR = 1.0
_CPUFREQ = "sys/devices/system/cpu/cpu{}/cpufreq"


def _no_cpufreq() -> str:
    return tr("no cpufreq in /sys/devices/system/cpu, as is usual in virtual machines")


def check_governor(here: Surroundings) -> Diagnosis:
    """Whether the clock follows the load."""
    name = tr("governor")
    found = {cpu: here.read(f"{_CPUFREQ.format(cpu)}/scaling_governor") for cpu in here.cpus()}
    governors = sorted({text for text in found.values() if text})
    if not governors:
        return unread(name, _no_cpufreq())
    told = joined(governors)
    if governors in (["performance"], ["userspace"]):
        return fine(name, tr("{told}, on {CPUs}", told=told, CPUs=trn("{count} CPU", "{count} CPUs", len(found))))
    return problem(
        name,
        Finding(
            code="clock-follows-load",
            message=tr("The frequency governor is {told}: the processor's clock follows the load.", told=told),
            advice=tr("Set it while you measure: sudo cpupower frequency-set -g performance"),
        ),
        tr(
            "Steps after a pause, such as the first ones or those that wait for input, run at a lower clock "
            "and look slower than they are."
        ),
    )


def check_clock(here: Surroundings) -> Diagnosis:
    """The clock of a busy CPU against the highest, and whether somebody set a lower limit."""
    name = tr("clock")
    limits = {cpu: _frequency(here, cpu, "cpuinfo_max_freq") for cpu in here.cpus()}
    known = {cpu: limit for cpu, limit in limits.items() if limit is not None}
    if not known:
        return unread(name, _no_cpufreq())
    turbo = {True: tr(", turbo on"), False: tr(", turbo off"), None: ""}[_turbo(here)]
    # CPUs of one machine can be of two kinds: each is held against its own limit.
    for cpu, most in known.items():
        allowed = _frequency(here, cpu, "scaling_max_freq")
        if allowed is not None and allowed < most * _CAPPED:
            return problem(
                name,
                Finding(
                    code="clock-capped",
                    message=tr(
                        "The clock of CPU {cpu} is limited to {allowed}, of {most} that it can{turbo}.",
                        cpu=cpu,
                        allowed=format_si(allowed, "Hz"),
                        most=format_si(most, "Hz"),
                        turbo=turbo,
                    ),
                    advice=tr(
                        "Lift the limit: sudo cpupower frequency-set -u {most}MHz, or choose another power profile.",
                        most=f"{most / 1e6:.0f}",
                    ),
                ),
                tr(
                    "Steadier, but computing is slower than this processor can, and memory much less so: that moves "
                    "what binds a step."
                ),
            )
    now = here.speed.clock_hz if here.speed is not None else None
    most = known.get(
        here.speed.cpu if here.speed is not None and here.speed.cpu is not None else -1, max(known.values())
    )
    if now is None:
        return unread(
            name,
            tr(
                "at most {most}{turbo}; the clock of a busy CPU could not be read",
                most=format_si(most, "Hz"),
                turbo=turbo,
            ),
        )
    if now >= most * _LOW_CLOCK:
        return fine(
            name,
            tr(
                "{now} when busy, at most {most}{turbo}",
                now=format_si(now, "Hz"),
                most=format_si(most, "Hz"),
                turbo=turbo,
            ),
        )
    return problem(
        name,
        Finding(
            code="clock-low",
            message=tr(
                "A busy CPU runs at {now}, of at most {most}{turbo}.",
                now=format_si(now, "Hz"),
                most=format_si(most, "Hz"),
                turbo=turbo,
            ),
            advice=tr(
                "See what holds it down: heat, a power profile, a limit of the host, or load on the other cores."
            ),
        ),
        tr(
            "Whatever holds the clock down may let go or tighten at any time: times taken now and later do not compare."
        ),
    )


def check_battery(here: Surroundings) -> Diagnosis:
    """Whether the machine runs on its battery."""
    name = tr("power")
    supplies = here.root / "sys/class/power_supply"
    if not supplies.is_dir():
        return unread(name, tr("no /sys/class/power_supply"))
    folders = [f"sys/class/power_supply/{path.name}" for path in sorted(supplies.iterdir())]
    # Mice and headsets have batteries too; theirs say that they belong to a device.
    own = [one for one in folders if here.read(f"{one}/type") == "Battery" and here.read(f"{one}/scope") != "Device"]
    running = [one for one in own if here.read(f"{one}/status") == "Discharging"]
    if not running:
        return fine(name, tr("from the mains, battery idle or charging") if own else tr("no battery"))
    charge = here.read(f"{running[0]}/capacity")
    return problem(
        name,
        Finding(
            code="on-battery",
            message=tr("The machine runs on its battery, {charge}% full.", charge=charge)
            if charge
            else tr("The machine runs on its battery."),
            advice=tr("Plug it in."),
        ),
        tr("The firmware lowers the clock to save energy, and lowers it further as the battery empties."),
    )


def check_heat(here: Surroundings) -> Diagnosis:
    """Whether heat has slowed the processor."""
    name = tr("heat")
    before = here.before.heat_events if here.before is not None else None
    after = here.after.heat_events if here.after is not None else None
    if before is None or after is None:
        return unread(
            name, tr("no thermal_throttle counters in /sys (Intel processors outside virtual machines have them)")
        )
    uptime = (here.read("proc/uptime") or "").partition(" ")[0]
    hours = float(uptime) / 3600 if uptime.replace(".", "", 1).isdecimal() else None
    if after == before and (after == 0 or (hours is not None and after < _HEAT_EVENTS_AN_HOUR * hours)):
        return fine(
            name,
            tr(
                "the clock was lowered {times} since the system started",
                times=trn("{count} time", "{count} times", after),
            ),
        )
    when = (
        tr("{times} in the last half second", times=trn("{count} time", "{count} times", after - before))
        if after > before
        else tr("not just now")
    )
    return problem(
        name,
        Finding(
            code="slowed-by-heat",
            message=tr(
                "Heat has lowered the clock {times} since the system started, {when}.",
                times=trn("{count} time", "{count} times", after),
                when=when,
            ),
            advice=tr("Let it cool down, improve the cooling, or measure shorter stretches with pauses."),
        ),
        tr("Long runs are slower than short ones, and whatever is measured second looks worse."),
    )


def check_steadiness(here: Surroundings) -> Diagnosis:
    """Whether a fixed piece of work takes a fixed time."""
    name = tr("steadiness")
    loops = sorted(time for time in here.speed.loops_ns if time > 0) if here.speed is not None else []
    if len(loops) < _FEWEST_LOOPS:
        return unread(
            name,
            tr(
                "a fixed loop was timed {times}, too few to tell",
                times=trn("{count} time", "{count} times", len(loops)),
            ),
        )
    quickest, slow = loops[0], loops[len(loops) * 9 // 10]
    ratio = slow / quickest
    told = tr("{runs} of a fixed loop", runs=trn("{count} run", "{count} runs", len(loops)))
    if ratio <= _UNSTEADY:
        return fine(
            name, tr("{told}: nine in ten within {ratio} of the quickest", told=told, ratio=format_ratio(ratio))
        )
    return problem(
        name,
        Finding(
            code="speed-unsteady",
            message=tr(
                "The speed moves: of {told}, one in ten took over {ratio} the time of the quickest ({quickest}).",
                told=told,
                ratio=format_ratio(ratio),
                quickest=format_time(quickest * 1e-9, unicode=False),
            ),
            advice=tr(
                "Look for other load and for what changes the clock (the lines above and below), or repeat and "
                "compare in turns."
            ),
        ),
        tr(
            "Two measurements of the same differ by as much. Smaller differences than that mean nothing "
            "unless they are measured in turns, as `boundby` does."
        ),
    )


def check_clock_source(here: Surroundings) -> Diagnosis:
    """Whether times can be read quickly and finely."""
    name = tr("timer")
    source = here.read("sys/devices/system/clocksource/clocksource0/current_clocksource")
    if here.speed is None:
        return unread(name, tr("the clock was not timed"))
    read_ns, step_ns = here.speed.read_ns, here.speed.step_ns
    told = tr(
        "{source}, {read} a reading",
        source=source or tr("source unknown"),
        read=format_time(read_ns * 1e-9, digits=2, unicode=False),
    )
    # A name that is not known says nothing by itself: what counts is how the clock behaves.
    if read_ns < _SLOW_READ_NS and step_ns < _COARSE_STEP_NS:
        return fine(name, told)
    return problem(
        name,
        Finding(
            code="timer-coarse",
            message=tr(
                "The clock that times are read from is slow or coarse: {told}, steps of {step}.",
                told=told,
                step=format_time(step_ns * 1e-9, digits=2, unicode=False),
            ),
            advice=tr("See /sys/devices/system/clocksource/clocksource0/available_clocksource: tsc is the quickest.")
            if source not in _GOOD_SOURCES
            else tr("Look for a sandbox or a tracer that comes between a process and the kernel."),
        ),
        tr("Watching an op costs a reading before and after: short ops look longer, and their times are rounded."),
    )


def check_virtual(here: Surroundings) -> Diagnosis:
    """Whether this is a virtual machine."""
    name = tr("virtual machine")
    cpuinfo = here.read("proc/cpuinfo")
    product = here.read("sys/class/dmi/id/product_name") or ""
    kind = here.read("sys/hypervisor/type")
    flags = next((line for line in (cpuinfo or "").splitlines() if line.startswith("flags")), None)
    guest = kind is not None or (flags is not None and "hypervisor" in flags.split())
    if not guest and flags is None:
        return unread(name, tr("the processor's flags, which would tell, could not be read"))
    if not guest:
        return fine(name, tr("no"))
    named = next((text for text in (product, kind) if text), None)
    return problem(
        name,
        Finding(
            code="virtual-machine",
            message=tr("This is a virtual machine ({name}).", name=named)
            if named
            else tr("This is a virtual machine."),
            advice=tr(
                "Compare only what ran in turns within one run, and repeat what matters. A machine of your own, "
                "or a host with dedicated cores, is steadier."
            ),
        ),
        tr(
            "Other guests share cores, caches and memory bandwidth. Its speed can change by half within "
            "seconds, and nothing here shows it."
        ),
    )


def _frequency(here: Surroundings, cpu: int, name: str) -> float | None:
    """The frequency (Hz) in one of a CPU's files, which hold kHz."""
    text = here.read(f"{_CPUFREQ.format(cpu)}/{name}") or ""
    return int(text) * 1e3 if text.isdecimal() and int(text) > 0 else None


def _turbo(here: Surroundings) -> bool | None:
    """Whether the clock may go beyond its rated value for a while; None where unknown."""
    disabled = here.read("sys/devices/system/cpu/intel_pstate/no_turbo")
    if disabled in ("0", "1"):
        return disabled == "0"
    boost = here.read("sys/devices/system/cpu/cpufreq/boost")
    return boost == "1" if boost in ("0", "1") else None
