"""Coverage in words: how much of the target the faults of a campaign have reached."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console

from undermine.analysis.coverage import Reached
from undermine.cli.console import console, plain
from undermine.report.text import count


def coverage_words(reached: Reached) -> str:
    """`faults fired at 33 of 175 points, 23 of 40 source locations; 12 recovery classes (last new one 31 runs ago)`"""
    said = (
        f"faults fired at {reached.points_fired} of {reached.points} points, "
        f"{reached.locations_fired} of {reached.locations} source locations"
    )
    if reached.recovery_points_fired:
        said += f" and {count(reached.recovery_points_fired, 'recovery point')}"
    if not reached.recovery_classes:
        return f"{said}; no recovery was observed" if reached.runs else said
    return f"{said}; {count(reached.recovery_classes, 'recovery class', 'recovery classes')} ({reached.since_new})"


def under_words(reached: Reached, percent: float) -> str:
    """`coverage is 12.5 % (5 of 40 source locations), which is less than --fail-under 20`"""
    if not reached.locations:
        return f"coverage is unknown, since no agent showed a source location; --fail-under {percent:g} needs one"
    said = f"{reached.locations_fired} of {reached.locations} source locations"
    return f"coverage is {reached.percent:.1f} % ({said}), which is less than --fail-under {percent:g}"


def growth_words(before: Reached, now: Reached) -> str:
    """The coverage that a run added; "" if it added none."""
    parts = []
    if now.locations_fired > before.locations_fired:
        parts.append(f"location {now.locations_fired} of {now.locations}")
    if now.recovery_classes > before.recovery_classes:
        parts.append(f"recovery class {now.recovery_classes}")
    return ", ".join(parts)


def show_coverage(reached: Reached) -> None:
    """Print the coverage of a stored campaign."""
    out = console()
    if reached.runs:
        out.print(f"\n{count(reached.runs, 'experiment')}; {coverage_words(reached)}")
        show_strategies(out, reached)


def show_strategies(out: Console, reached: Reached, covered: Mapping[str, int] | None = None) -> None:
    """Print the coverage of each strategy, if there are several, and how many of its plans other runs had already tried."""
    for name, share in reached.by_strategy.items() if len(reached.by_strategy) > 1 else ():
        classes = count(share.recovery_classes, "recovery class", "recovery classes")
        tried = (covered or {}).get(name, 0)
        more = f"; other runs had tried {count(tried, 'more plan')}" if tried else ""
        out.print(
            f"   {plain(name)}: {count(share.runs, 'experiment')}, {count(share.points_fired, 'point')}, "
            f"{count(share.locations_fired, 'source location')}, {classes} ({share.new_classes} new){more}"
        )
