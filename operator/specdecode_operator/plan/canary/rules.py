"""What of a canary the schema can't refuse: rules that span fields, or need a duration's length."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from specdecode_operator.api.canary import Gate, Step, seconds, share
from specdecode_operator.api.errors import FieldError
from specdecode_operator.api.types import Spec
from specdecode_operator.gates.plan import MAX_WINDOWS
from specdecode_operator.gates.register import FIRST_LOOK, LEAST_CONTROLLED, MEASURED, PROBE_SECONDS
from specdecode_operator.plan.canary.asking import window_of

MOST_ALPHA: Final = 0.2
LEAST_POWER: Final = 0.5
FEWEST_SCRAPES: Final = 2


def validate_rollout(spec: Spec) -> Iterator[FieldError]:
    """Nothing of it is asked while the strategy isn't Canary."""
    if not spec.rollout.canary:
        return
    yield from _needed(spec)
    yield from _errors(spec)
    yield from _window(spec)
    for place, gate in enumerate(spec.gates):
        yield from _gate(place, gate)
    for place, step in enumerate(spec.rollout.steps):
        yield from _step(spec, place, step)


def _needed(spec: Spec) -> Iterator[FieldError]:
    for path, found, what in (
        ("spec.rollout.steps", spec.rollout.steps, "steps, the last of which decides"),
        ("spec.gates", spec.gates, "gates, what a revision is judged by"),
        ("spec.metrics.backend", spec.metrics.backend, "the name of one of the chart's metricsBackends"),
    ):
        if not found:
            yield FieldError(
                path=path,
                found="none with strategy Canary",
                allowed=what,
                action="add it, or set spec.rollout.strategy to Replace",
            )


def _errors(spec: Spec) -> Iterator[FieldError]:
    if share(spec.rollout.alpha) > MOST_ALPHA:
        yield FieldError("spec.rollout.alpha", spec.rollout.alpha, f"at most {MOST_ALPHA:.0%}", "lower it")
    if share(spec.rollout.power) < LEAST_POWER:
        yield FieldError("spec.rollout.power", spec.rollout.power, f"at least {LEAST_POWER:.0%}", "raise it")


def _window(spec: Spec) -> Iterator[FieldError]:
    least, why = FEWEST_SCRAPES * seconds(spec.metrics.scrape_interval), f"{FEWEST_SCRAPES} scrapes"
    timed = next((gate for gate in spec.gates if MEASURED[gate.metric].control), None)
    if timed is not None and least < LEAST_CONTROLLED:
        least = LEAST_CONTROLLED
        why = f"gate {timed.name} on a time: its control is a probe that runs every {PROBE_SECONDS:g} s"
    if not least <= window_of(spec) <= 3600:
        yield FieldError(
            path="spec.metrics.window",
            found=f"{window_of(spec):g} s with scrapes every {spec.metrics.scrape_interval}",
            allowed=f"{least:g} s ({why}) to 1h",
            action="raise it",
        )


def _gate(place: int, gate: Gate) -> Iterator[FieldError]:
    if gate.metric == "acceptanceLength" and gate.statistic != "mean":
        yield FieldError(
            path=f"spec.gates[{place}].statistic",
            found=f"{gate.statistic} of acceptanceLength",
            allowed="mean: a length is counted over whole requests",
            action="remove it",
        )


def _step(spec: Spec, place: int, step: Step) -> Iterator[FieldError]:
    path, last = f"spec.rollout.steps[{place}]", place == len(spec.rollout.steps) - 1
    known = [gate.name for gate in spec.gates]
    unknown = sorted(set(step.gates) - set(known))
    if unknown:
        yield FieldError(f"{path}.gates", ", ".join(unknown), ", ".join(known) or "none", "name gates of spec.gates")
    elif last and step.gates and set(step.gates) != set(known):
        yield FieldError(
            f"{path}.gates", ", ".join(step.gates), "all gates, in the step that decides", "remove the list"
        )
    if seconds(step.min_duration) > seconds(step.max_duration):
        yield FieldError(
            path=f"{path}.minDuration",
            found=step.min_duration,
            allowed=f"at most maxDuration ({step.max_duration})",
            action="lower it, or raise maxDuration",
        )
    yield from _length(spec, path, step, last=last)


def _length(spec: Spec, path: str, step: Step, *, last: bool) -> Iterator[FieldError]:
    """What the step's plan has to hold: a first look, and no more windows than can be judged."""
    field, text = ("maxDuration", step.max_duration) if last else ("minDuration", step.min_duration)
    times = 2 if last and step.on_inconclusive == "Extend" else 1
    least, most = FIRST_LOOK * window_of(spec), MAX_WINDOWS * window_of(spec) / times
    if not least <= seconds(text) <= most:
        yield FieldError(
            path=f"{path}.{field}",
            found=f"{text} with windows of {window_of(spec):g} s",
            allowed=f"{least:g} s to {most:g} s, {FIRST_LOOK} to {MAX_WINDOWS // times} windows",
            action="change it, or spec.metrics.window",
        )
