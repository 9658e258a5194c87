"""Events: what changed, told once, in sentences. A state that stays says nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specdecode_operator.api import names
from specdecode_operator.api.conditions import get_condition
from specdecode_operator.api.status import Status
from specdecode_operator.plan.actions import Action, Apply, Delete, Event, Patch
from specdecode_operator.plan.attestation import TAKES_OUT
from specdecode_operator.plan.canary.fresh import RESTARTS

DRIFT_KINDS = frozenset(
    {
        *("ControllerRevision", "ReplicaSet", "LeaderWorkerSet", "ComputeDomain"),
        *("Service", "HTTPRoute", "PodDisruptionBudget", "PodMonitor"),
    }
)

PASSING = frozenset(
    {names.REASON_NOTHING_READY, names.REASON_NO_SERVICE, names.REASON_NOT_READY, names.REASON_ROUTE_PENDING}
)
"""Reasons that a start goes through, or of which Progressing tells more."""


def narrate(before: Status, after: Status, actions: Sequence[Action]) -> tuple[Event, ...]:
    """What is worth telling of the change from `before` to `after` and of what is being done."""
    return (
        *_revisions(before, after),
        *_conditions(before, after),
        *_repairs(actions),
        *_taken_out(actions),
        *_restarted(actions),
        *_steps(before, after),
    )


def _revisions(before: Status, after: Status) -> Iterator[Event]:
    old, new = before.candidate, after.candidate
    canary = any(each is not None and each.candidate is not None for each in (before.run, after.run))
    if not canary and new and (old is None or old.revision != new.revision) and after.stable:
        yield Event(
            "Normal",
            "ReplacementStarted",
            f"Revision {new.revision} (engine {new.engine_version}) replaces revision {after.stable.revision} "
            "slot by slot.",
        )
    if after.stable and (before.stable is None or before.stable.revision != after.stable.revision):
        taken = before.candidate is not None and before.candidate.revision == after.stable.revision
        words = "holds all slots and is stable now" if taken else "is the object's stable revision"
        yield Event("Normal", "RevisionStable", f"Revision {after.stable.revision} {words}.")
    elif not canary and old and new is None and after.stable:
        yield Event(
            "Normal",
            "ReplacementEnded",
            f"Revision {old.revision} is no longer asked for; revision {after.stable.revision} takes its slots back.",
        )


def _conditions(before: Status, after: Status) -> Iterator[Event]:
    for kind in names.CONDITIONS:
        old, new = get_condition(before.conditions, kind), get_condition(after.conditions, kind)
        if new is None or (old is not None and (old.status, old.reason) == (new.status, new.reason)):
            continue
        if new.status == "False" and new.reason not in PASSING:
            yield Event("Warning" if kind != names.CONDITION_READY else "Normal", new.reason, new.message)
        elif old is not None and old.status == "False" and new.status == "True":
            yield Event("Normal", new.reason, new.message)


def _steps(before: Status, after: Status) -> Iterator[Event]:
    old, new = before.run, after.run
    if new and old and new.step != old.step and after.candidate and new.candidate is None:
        yield Event("Normal", "SlotMoved", f"Revision {after.candidate.revision} has settled in {new.step} slots.")


def _repairs(actions: Sequence[Action]) -> Iterator[Event]:
    for action in actions:
        if isinstance(action, Patch) and action.kind in DRIFT_KINDS and action.why.startswith("sets "):
            path = action.why.removeprefix("sets ").removesuffix(" back")
            yield Event(
                "Warning", "DriftRepaired", f"{action.kind} {action.name}: {path} was changed by others; set back."
            )
        elif isinstance(action, Delete) and action.why.endswith("it is made anew"):
            yield Event("Warning", "DriftRepaired", f"{action.kind} {action.name}: {action.why}.")
        elif isinstance(action, Apply) and _is_repair(action):
            path = action.why.removeprefix("sets ")
            name = action.manifest["metadata"]["name"]
            yield Event(
                "Warning",
                "DriftRepaired",
                f"{action.manifest['kind']} {name}: {path} is set back to what it should be.",
            )


def _taken_out(actions: Sequence[Action]) -> Iterator[Event]:
    for action in actions:
        if isinstance(action, Patch) and action.kind == "Pod" and action.why.startswith(TAKES_OUT):
            words = action.why.removeprefix(TAKES_OUT)
            yield Event("Warning", "PodTakenOut", f"Takes pod {action.name} out of its Services: {words}")


def _restarted(actions: Sequence[Action]) -> Iterator[Event]:
    for action in actions:
        if isinstance(action, Delete) and action.why == RESTARTS:
            yield Event("Normal", "SlotRestarted", f"Pod {action.name}: {action.why}.")


def _is_repair(action: Apply) -> bool:
    """A workload's template is frozen, so a difference in it is always somebody else's doing."""
    return action.manifest["kind"] in ("ReplicaSet", "LeaderWorkerSet") and action.why.startswith("sets spec.template")
