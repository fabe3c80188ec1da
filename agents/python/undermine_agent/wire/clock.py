"""True time in a process whose clock runs faster (`run.speed`).

The agent lives in the target's time, like everything in the process: plans name seconds of that time. Only what it tells the
tool is true time, of the clock that all processes of a run share. At speed 1 there is nothing to convert.
"""

from __future__ import annotations

LIBRARY = "undermine_clock"

speed = 1
origin = 0


def begin(config: dict) -> None:
    """Note the speed that the configuration names. Raises if the process has not loaded the library: then it runs at speed 1."""
    global speed, origin
    wanted = config.get("speed", 1)
    if wanted == 1:
        return
    with open("/proc/self/maps", "rb") as maps:
        if LIBRARY.encode() not in maps.read():
            raise OSError("this process runs at speed 1: it did not load the library %s" % LIBRARY)
    speed, origin = wanted, config["origin_ns"]
    from undermine_agent.interpreter import fast

    if fast.module is not None:
        fast.module.set_clock(speed, origin)


def true_ns(t_ns: int) -> int:
    """A moment of the process's monotonic clock, as the tool's clock shows it."""
    return t_ns if speed == 1 else origin + (t_ns - origin) // speed


def true_s(seconds):
    """The time limit by the process's clock that takes this many true seconds."""
    return seconds * speed
