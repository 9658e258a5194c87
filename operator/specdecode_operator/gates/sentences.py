"""Verdicts in sentences: what was compared, numbers, margin, and what it asks of the reader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from specdecode_operator.gates.verdict import GateVerdict, Outcome, Reason, percent

MEANING: Final[Mapping[Reason, str]] = {
    Reason.WITHIN_MARGIN: "the candidate is no worse than the margin allows",
    Reason.BETTER: "the candidate is better by the margin",
    Reason.BEYOND_MARGIN: "the candidate is worse than the margin allows",
    Reason.BUCKET_BEYOND_MARGIN: "in one batch bucket alone the candidate is worse than the margin allows",
    Reason.CATASTROPHE: "the candidate was far beyond any noise in three windows running",
    Reason.CANDIDATE_CRASHED: "the candidate's engine ended of itself",
    Reason.MEASURING: "the interval still holds the margin; more windows are needed",
    Reason.UNDECIDED: "the interval still holds the margin at the planned end; plan more slots or a longer run",
    Reason.NEUTRAL: "the candidate is neither better by the margin nor worse",
    Reason.GUARDED: "nothing speaks against the candidate; this step may stop a run, not pass one",
    Reason.DRIFT: "the arms' controls moved apart since the swap; swap the slot back: what follows the revision is "
    "its own, what stays with the tray is the node's",
    Reason.NOT_SETTLED: "the arms' difference changed from the first half to the second; settle longer, or compare "
    "with a stable pod restarted at the same time",
    Reason.BUCKET_DOUBTFUL: "one batch bucket alone looks worse than the margin allows; plan more windows",
    Reason.BASELINE_APART: "the restarted stable pods are too far from the other stable ones to stand for them",
    Reason.FEW_PODS: "too few pods have enough windows to be compared",
    Reason.FEW_REQUESTS: "the candidate has finished too few requests",
    Reason.NO_DATA: "there is no window that can be used",
    Reason.ARM_SILENT: "one arm has no window that can be used",
    Reason.UNBALANCED_LOAD: "the arms ran different batch sizes: their shares overlap by less than a half",
    Reason.ASYMMETRIC_LOSS: "the arms lost windows unevenly, so that what was lost may be what was slow",
    Reason.TRAFFIC_SHARE: "the arms' requests are not split as the route's weights say",
    Reason.PROMPTS_DIFFER: "the arms were asked different things: prompt lengths or prefix hits differ",
    Reason.NO_SPREAD: "all pods gave the same numbers to the last digit, which measurements do not",
    Reason.LOST_STEPS: "the arms' steps do not match their requests: samples were lost on one side",
}


def of_gate(verdict: GateVerdict, detail: str = "") -> str:
    """One gate's verdict."""
    meaning = detail or MEANING.get(verdict.reason, "the run can't be judged")
    text = f"{verdict.gate}: {verdict.outcome} ({verdict.reason}). {meaning[:1].upper()}{meaning[1:]}"
    return f"{text}: {_numbers(verdict)}." if verdict.estimate is not None else f"{text}. {_evidence(verdict)}."


def _numbers(verdict: GateVerdict) -> str:
    between = (
        f" ({percent(verdict.interval[0])} to {percent(verdict.interval[1])})"
        if verdict.interval
        else " (no bounds yet)"
    )
    return (
        f"candidate minus stable {percent(verdict.estimate)}{between}, margin {100 * verdict.margin:g}%, "
        f"{_evidence(verdict)}"
    )


def _evidence(verdict: GateVerdict) -> str:
    return (
        f"{verdict.windows} of {verdict.planned} windows, {verdict.pods.stable:g} stable and "
        f"{verdict.pods.candidate:g} candidate pods, {verdict.requests.candidate:g} requests on the candidate"
    )


def of_run(outcome: Outcome, gates: tuple[GateVerdict, ...], first: GateVerdict, detail: str = "") -> str:
    """The run's verdict, by the gate that it hangs on."""
    if detail:
        return f"{outcome} ({first.reason}): {detail}."
    if outcome is Outcome.PASS:
        return f"Pass: all {len(gates)} gates passed. {first.sentence}" if len(gates) > 1 else f"Pass: {first.sentence}"
    return f"{outcome}: {first.sentence}"
