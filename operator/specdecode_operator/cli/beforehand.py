"""The plan that an object's canary would have: from what the object asks for, and a history of pods like its own.

It is registered as the operator would, by the same functions; only nobody writes it down.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence
from typing import Any, Final

from specdecode_operator.api.canary import seconds
from specdecode_operator.api.errors import FieldError, InvalidObject
from specdecode_operator.api.types import Spec, SpecDecodeDeployment
from specdecode_operator.cli import backend, judge
from specdecode_operator.gates.plan import Arm
from specdecode_operator.gates.register import HISTORY_WINDOWS, Asked, Unfit, few_slots, register
from specdecode_operator.gates.run import RunPlan
from specdecode_operator.gates.samples import Sample
from specdecode_operator.gates.verdict import Reason
from specdecode_operator.gates.windows import Grid
from specdecode_operator.metrics.errors import MetricsError, NoData
from specdecode_operator.metrics.query import Metric, Question
from specdecode_operator.plan.canary.asking import asked_of, window_of
from specdecode_operator.plan.canary.rules import validate_rollout

RUN: Final = "unregistered"
CANDIDATE: Final = "candidate"
SCRAPES_LATE: Final = 2
"""Scrape intervals until the last window of a history is complete."""


def plan_of(found: dict[str, Any], arguments: argparse.Namespace) -> RunPlan:
    """What would be registered for an object now.

    Raises:
        InvalidObject: the object asks for no canary, or for one that can't be; the history can't be read.
        Unfit: nothing would move; with what would do.
    """
    desired = SpecDecodeDeployment.parse(_complete(found, arguments.namespace))
    errors = tuple(validate_rollout(desired.spec)) if desired.spec.rollout.canary else (_no_canary(desired.spec),)
    if errors:
        raise InvalidObject(errors)
    history = _history(desired, arguments)
    asked = _asked(desired, _stable(desired, history, arguments.revision))
    if few := few_slots(asked):
        raise Unfit(Reason.UNDERPOWERED, few)
    window = window_of(desired.spec)
    end = max((sample.window_end for sample in history), default=0.0)
    start = max(end - HISTORY_WINDOWS * window, 0.0)
    newest = [sample for sample in history if sample.window_start > start - window / 2]
    return register(asked, newest, start=start, at=time.time())


def _complete(found: dict[str, Any], namespace: str | None) -> dict[str, Any]:
    """With what the API server adds to an object."""
    given = {key: value for key, value in (found.get("metadata") or {}).items() if value is not None}
    asked = {"namespace": namespace} if namespace else {}
    return {**found, "metadata": {"name": "unnamed", "namespace": "default", "uid": "", **given, **asked}}


def _no_canary(spec: Spec) -> FieldError:
    return FieldError("spec.rollout.strategy", spec.rollout.strategy, "Canary", "set it: Replace compares nothing")


def _asked(desired: SpecDecodeDeployment, stable: str) -> Asked:
    arms = [Arm(revision=revision, pods=max(desired.spec.replicas, 1)) for revision in (stable, CANDIDATE)]
    name = f"{desired.namespace}/{desired.name}"
    return asked_of(desired.spec, name=name, run=RUN, stable=arms[0], candidate=arms[1])


def _stable(desired: SpecDecodeDeployment, history: Sequence[Sample], revision: str | None) -> str:
    """Whose history counts: the one that was named, that serves, or that alone is there."""
    if revision:
        return revision
    there = sorted({sample.revision for sample in history})
    serving = desired.status.stable.revision if desired.status.stable else None
    if serving in there or not there:
        return serving or "none"
    if len(there) > 1:
        raise InvalidObject([FieldError("--revision", "none", " or ".join(there), "say whose history counts")])
    return there[0]


def _history(desired: SpecDecodeDeployment, arguments: argparse.Namespace) -> Sequence[Sample]:
    if arguments.samples is None:
        return _from_prometheus(desired, arguments)
    samples = tuple(judge.samples_of(arguments.samples))
    window = window_of(desired.spec)
    other = next((each for each in samples if abs(each.window_end - each.window_start - window) > 0.01 * window), None)
    if other is not None:
        found = f"a window of {other.window_end - other.window_start:g} s"
        action = f"print them with samples --window {window:g}s, or set spec.metrics.window"
        raise InvalidObject([FieldError("--samples", found, f"the object's, {window:g} s", action)])
    return samples


def _from_prometheus(desired: SpecDecodeDeployment, arguments: argparse.Namespace) -> Sequence[Sample]:
    """The newest windows of the object's pods, or of another object's that is taken for it."""
    whom = backend.chosen(arguments, desired.namespace)
    question = _question(desired, arguments.history_of or desired.name, arguments.revision)

    async def gathered() -> list[Sample]:
        return [sample async for found in backend.answers(question, whom) for sample in found]

    try:
        return asyncio.run(gathered())
    except NoData as error:
        raise Unfit(Reason.NO_DATA, str(error)) from None
    except MetricsError as error:
        raise InvalidObject([FieldError("--backend-url", str(error), "an answer", "look at the backend")]) from None


def _question(desired: SpecDecodeDeployment, name: str, revision: str | None) -> Question:
    window, scrape = window_of(desired.spec), seconds(desired.spec.metrics.scrape_interval)
    asked = _asked(desired, revision or RUN)
    end = (time.time() - SCRAPES_LATE * scrape) // window * window
    return Question(
        namespace=desired.namespace,
        name=name,
        grid=Grid(end - HISTORY_WINDOWS * window, window, HISTORY_WINDOWS, scrape),
        metrics=tuple(Metric(metric, buckets=metric in asked.histograms) for metric in asked.metrics),
        revisions=(revision,) if revision else (),
    )
