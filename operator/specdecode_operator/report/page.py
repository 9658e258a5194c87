"""The page: a case and its pictures put into one HTML file."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from specdecode_operator.gates.plan import Gate
from specdecode_operator.gates.verdict import Arms, GateVerdict, percent
from specdecode_operator.gates.verdict import as_json as plain
from specdecode_operator.report import charts, palette, words
from specdecode_operator.report.asked import queries_of
from specdecode_operator.report.case import Case, Judged, Step
from specdecode_operator.report.escape import finalized
from specdecode_operator.report.series import PodRow, pod_rows, shown
from specdecode_operator.report.told import Both, Decomposition, decomposition, positions, told

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
"""What the page may load: nothing. A browser holds it to that."""


@dataclass(frozen=True)
class LossRow:
    """Windows of pods lost for one reason."""

    reason: str
    arms: Arms
    meaning: str
    example: str
    """Where it was seen first."""


@dataclass(frozen=True)
class GateView:
    """One gate of one step, as the page shows it."""

    gate: Gate
    verdict: GateVerdict
    question: str
    interval: tuple[float, float] | None
    """In percent."""
    bar: Markup
    course: Markup | None
    arms: Markup | None
    drift: Markup | None
    losses: Markup | None
    lost: tuple[LossRow, ...]


@dataclass(frozen=True)
class StepView:
    """One step, as the page shows it."""

    step: Step
    gates: tuple[GateView, ...]
    positions: Markup | None
    shares: tuple[Both, ...]
    parts: Decomposition | None


def page(case: Case, *, note: str = "") -> str:
    """The report of a run. `note` stands above all: what a reader has to know who wasn't there."""
    environment = Environment(
        loader=PackageLoader("specdecode_operator.report", "."),
        autoescape=True,
        finalize=finalized,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters.update(
        percent=percent, size=_size, number=_number, utc=words.utc, measure=words.measure, slug=_slug
    )
    views = [_step(step) for step in case.steps]
    return environment.get_template("page.html.j2").render(
        case=case,
        note=note,
        policy=POLICY,
        light=palette.LIGHT,
        dark=palette.DARK,
        outcome=words.outcome(case),
        headline=words.headline(case),
        after=words.AFTER.get(words.outcome(case), ""),
        asks=words.ASKS[words.outcome(case)],
        last=views[-1],
        steps=views,
        timeline=_timeline(case),
        checks=_checks(case),
        queries=queries_of(case, case.last),
        plan_text=_indented(case.text),
    )


def _step(step: Step) -> StepView:
    found = told(step.looks)
    shares = positions(found)
    return StepView(
        step=step,
        gates=tuple(_gates(step.judged)) if step.judged else (),
        positions=charts.positions(shares) if shares else None,
        shares=shares,
        parts=decomposition(found),
    )


def _gates(judged: Judged) -> Sequence[GateView]:
    by_name = {gate.name: gate for gate in judged.intake.plan.gates}
    return [_gate(judged, by_name[verdict.gate], verdict) for verdict in judged.verdict.gates]


def _gate(judged: Judged, gate: Gate, verdict: GateVerdict) -> GateView:
    plan = judged.intake.plan
    followed = gate.name in judged.courses
    rows = pod_rows(judged, gate) if followed else ()
    lost = sum(bool(reason) for row in rows for reason in row.reasons)
    return GateView(
        gate=gate,
        verdict=verdict,
        question=words.question(gate),
        interval=charts.interval(gate, verdict),
        bar=charts.bar(gate, verdict),
        course=charts.course(plan, gate, verdict) if followed else None,
        arms=charts.arms(plan, gate, shown(judged, gate)) if followed else None,
        drift=charts.drift(plan, verdict) if followed and verdict.control else None,
        losses=charts.losses(plan, rows) if lost else None,
        lost=tuple(_lost(reason, arms, rows) for reason, arms in verdict.spent.items()),
    )


def _lost(reason: str, arms: Arms, rows: Sequence[PodRow]) -> LossRow:
    example = next(
        (f"window {row.reasons.index(reason) + 1} of pod {row.uid} on {row.node}" for row in rows
         if reason in row.reasons), "",
    )  # fmt: skip
    return LossRow(reason, arms, words.LOSSES.get(reason, words.LOSSES[""]).meaning, example)


def _timeline(case: Case) -> Markup | None:
    spans = words.spans(case)
    if not spans or case.run.plan is None:
        return None
    arms = case.run.plan.steps[0].plan
    return charts.timeline(spans, arms.stable.pods + arms.candidate.pods, spans[-1].end)


def _checks(case: Case) -> Sequence[tuple[bool, str]]:
    """What was checked while the page was made: whether it holds, and what."""
    registered = case.run.plan is not None
    whole = "the registered plan has the digest that the record names"
    gone = "the registered plan is gone, or not the one that the record names"
    found = [(registered, whole if registered else gone)]
    for step in case.steps:
        if registered and step.plan is not None:
            found.append((step.as_registered, f"step {step.number} was judged by its registered plan"))
        if step.confirmed is not None:
            found.append((step.confirmed, f"step {step.number}'s recorded samples give its recorded verdict again"))
    return found


def _indented(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def _slug(word: str) -> str:
    """An outcome as a class."""
    return word.lower().replace(" ", "-")


def _size(effect: float | None) -> str:
    """An effect without its direction, in percent."""
    return _number(None if effect is None else 100 * effect, 3) + "%"


def _number(value: float | None, digits: int = 4) -> str:
    """A number as people read it; a dash where there is none."""
    return "–" if value is None or not math.isfinite(value) else f"{value:.{digits}g}"


def as_json(case: Case) -> Mapping[str, Any]:
    """The same for programs."""
    return {
        "name": case.name,
        "namespace": case.namespace,
        "run": case.record.id,
        "outcome": words.outcome(case),
        "headline": words.headline(case),
        "planDigest": case.record.plan,
        "checks": [{"holds": holds, "what": what} for holds, what in _checks(case)],
        "steps": [
            {
                "step": step.number,
                "verdict": plain(step.judged.verdict) if step.judged else None,
                "acceptanceByPosition": plain(positions(told(step.looks))),
                "decomposition": plain(decomposition(told(step.looks))),
            }
            for step in case.steps
        ],
    }
