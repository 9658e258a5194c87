"""The queries behind a step's samples, to be pasted into Prometheus."""

from __future__ import annotations

from specdecode_operator.gates.told import TOLD
from specdecode_operator.gates.windows import FEWEST_SCRAPES, Grid
from specdecode_operator.metrics.query import LEAD, Metric, Question, queries
from specdecode_operator.report.case import Case, Step


def queries_of(case: Case, step: Step) -> tuple[str, ...]:
    """What asks again for all windows of the step. The operator asked piece by piece, with its backend's own labels.

    The record doesn't say how far scrapes lay apart; a window held three at least, which is lead enough.
    """
    plan, record = step.plan, step.record
    if plan is None or record is None or not record.through:
        return ()
    spans = [span for gate in plan.gates for span in (gate.span, gate.control.span if gate.control else None) if span]
    read = dict.fromkeys((*(span.metric for span in spans), *TOLD))
    question = Question(
        namespace=case.namespace,
        name=case.name,
        grid=Grid(
            start=plan.windows.start,
            seconds=plan.windows.seconds,
            count=record.through,
            scrape_interval=plan.windows.seconds / max(LEAD, FEWEST_SCRAPES - 1),
        ),
        metrics=tuple(map(Metric, read)),
        revisions=(plan.stable.revision, plan.candidate.revision),
    )
    identity, measured = queries(question, {})
    return str(identity), *(str(query) for _, query in measured)
