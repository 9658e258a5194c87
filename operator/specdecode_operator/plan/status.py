"""The status: conditions and counts, said so that the same state always gives the same words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from specdecode_operator.api import names
from specdecode_operator.api.catalogue import CATALOGUE, DISABLED, Catalogue
from specdecode_operator.api.conditions import get_condition, set_condition
from specdecode_operator.api.errors import FieldError
from specdecode_operator.api.profiles import Profile
from specdecode_operator.api.status import Condition, RevisionStatus, RunStatus, Status
from specdecode_operator.api.types import SpecDecodeDeployment
from specdecode_operator.build.frozen import Frozen
from specdecode_operator.plan import observe, traffic
from specdecode_operator.plan.canary.course import Course
from specdecode_operator.plan.observe import Json, Revision
from specdecode_operator.plan.rollout import Goal, Move, serving
from specdecode_operator.plan.said import Said, all_serve, all_slots, sentence
from specdecode_operator.plan.slots import Arm
from specdecode_operator.plan.trouble import Trouble

SENTENCES: Final = 3
"""Pods that one condition speaks of; their number can be large, and an event's message is short."""


@dataclass(frozen=True)
class Situation:
    """All that the status is made from."""

    desired: SpecDecodeDeployment
    now: datetime
    profile: Profile
    arms: Mapping[Revision, Arm]
    frozen: Mapping[Revision, Frozen]
    goal: Goal | None
    move: Move | None
    weights: Mapping[str, int]
    route: Json | None
    errors: tuple[FieldError, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    """Of the target first, then of others."""
    missing_api: str = ""
    """An API that the pods need and that is not installed."""
    road_in_force: bool = True
    """Whether the live route leads from where the object asks for, whatever shares it gives."""
    route_api: bool = True
    service: bool = True
    """Whether the object has the Service that leads to all its revisions."""
    hostname_error: FieldError | None = None
    catalogue: Catalogue = CATALOGUE
    verified_requests: bool = False
    """Whether the API server has seen to it that a request names who wrote it."""
    course: Course | None = None
    """What the canary comes to; None where revisions replace each other without proof."""


def status_of(it: Situation) -> Status:
    """The object's status now."""
    goal, move = it.goal, it.move
    stable = goal.stable if goal else None
    if goal and move and move.done and goal.swap and goal.slots is None:
        stable = goal.target
    candidate = goal.target if goal and goal.target != stable else None
    if it.course is not None:
        candidate = it.course.candidate if it.course.candidate != stable else None
    conditions = _without_canary(it)
    said = {
        names.CONDITION_READY: ready(it),
        names.CONDITION_PROGRESSING: progressing(it),
        names.CONDITION_ATTESTED: attested(it),
        names.CONDITION_ROUTABLE: routable(it),
        **_of_canary(it.course),
    }
    for kind, each in said.items():
        conditions = set_condition(
            conditions,
            type=kind,
            status=each.status,
            reason=each.reason,
            message=each.message,
            generation=it.desired.generation,
            now=it.now,
        )
    return Status(
        observed_generation=it.desired.generation,
        conditions=conditions,
        replicas=sum(len(arm.standing) for arm in it.arms.values()),
        ready_replicas=serving(it.arms),
        selector=names.selector(it.desired.name),
        profile=it.profile.status() if not it.errors else it.desired.status.profile,
        stable=_proven(_revision(it, stable), it),
        candidate=_revision(it, candidate),
        run=_canary_run(it) or _run(it, candidate, said[names.CONDITION_PROGRESSING]),
        **_remembered(it),
    )


def _canary_run(it: Situation) -> RunStatus | None:
    """The canary's run. A spec that is refused leaves it where it was."""
    before = it.desired.status.run
    if it.course is None:
        return before if it.errors and before is not None and before.candidate is not None else None
    return it.course.run


def _without_canary(it: Situation) -> tuple[Condition, ...]:
    """The object's conditions; what a canary says goes with the canary."""
    before = it.desired.status.conditions
    if it.course is not None or it.errors:
        return before
    return tuple(each for each in before if each.type not in names.CANARY_CONDITIONS)


def _of_canary(course: Course | None) -> dict[str, Said]:
    said = {names.CONDITION_METRICS: course.metrics, names.CONDITION_ROLLOUT: course.healthy} if course else {}
    return {kind: each for kind, each in said.items() if each is not None}


def _remembered(it: Situation) -> dict[str, Any]:
    """What canaries have come to. It stays while the object has another strategy, or a spec that is refused."""
    before, course = it.desired.status, it.course
    if course is None:
        return {"verdicts": before.verdicts, "rejected": before.rejected, "request": before.request}
    return {"verdicts": course.verdicts or None, "rejected": course.rejected or None, "request": course.request}


def _proven(status: RevisionStatus | None, it: Situation) -> RevisionStatus | None:
    """Marked as unproven until it has held all its slots once."""
    done = it.move is not None and it.move.done and it.goal is not None and it.goal.replicas > 0
    if status is None or it.course is None or not it.course.unproven or done:
        return status
    return status.model_copy(update={"unproven": True})


def ready(it: Situation) -> Said:
    """Whether enough slots serve."""
    if it.goal is None:
        return Said("False", names.REASON_NO_REVISION, "No revision serves: the spec has been invalid since the start.")
    count, wanted, least = serving(it.arms), it.goal.replicas, it.goal.min_available
    if wanted == 0:
        return Said("False", names.REASON_SCALED_TO_ZERO, "spec.replicas is 0: nothing serves.")
    if count >= wanted:
        return Said("True", names.REASON_ALL_READY, f"{all_serve(wanted)}.")
    if count >= max(least, 1):
        return Said("True", names.REASON_MIN_AVAILABLE, f"{count} of {wanted} slots serve; minAvailable is {least}.")
    return Said("False", names.REASON_NOT_READY, f"{count} of {wanted} slots serve; minAvailable is {least}.")


def progressing(it: Situation) -> Said:
    """What moves, or why nothing does."""
    goal, move = it.goal, it.move
    if it.errors:
        stays = _stays(it, goal.stable) if goal else ""
        said = " ".join(str(error) for error in it.errors)
        return Said("False", names.REASON_INVALID_SPEC, f"The spec is refused. {stays}{said}")
    assert goal is not None
    assert move is not None
    if it.missing_api:
        return Said(
            "False",
            names.REASON_CRD_MISSING,
            f"spec.accelerator.nodesPerReplica needs {it.missing_api}, which this API server doesn't have: install it.",
        )
    count = f"{serving(it.arms)} of {goal.replicas} slots serve."
    if it.troubles:
        return Said("False", it.troubles[0].reason, f"{sentence(it.troubles[0].message)} {count}")
    if move.blocked:
        return Said("False", names.REASON_HELD, f"{move.waiting} {count}")
    if it.course is not None and it.course.progressing is not None:
        return _in_transit(it.course.progressing, goal, move)
    if goal.target != goal.stable and not move.done:
        return Said("True", names.REASON_REPLACING, move.waiting or f"Revision {goal.target} takes its slots. {count}")
    if sum(arm.replicas for arm in it.arms.values()) != goal.replicas or not _only(it.arms, goal.target):
        return Said("True", names.REASON_SCALING, move.waiting or f"Going to {goal.replicas} slots. {count}")
    if serving(it.arms) < goal.replicas:
        return Said("True", names.REASON_STARTING, f"Revision {goal.target} is starting. {count}")
    if not move.done:
        return Said("True", names.REASON_STARTING, f"{count} {_settled(it, goal)} of {goal.replicas} have settled.")
    return Said("True", names.REASON_COMPLETE, f"Revision {goal.target} holds {all_slots(goal.replicas)}.")


def _stays(it: Situation, stable: Revision) -> str:
    """What a refused spec leaves as it is."""
    arm = it.arms.get(stable)
    goes_on = "goes on serving" if arm and arm.ready else "stays; none of its slots serves"
    return f"Revision {stable} {goes_on}. "


def _in_transit(said: Said, goal: Goal, move: Move) -> Said:
    """What a canary says, and what a slot that nobody has yet waits for."""
    held = sum(move.replicas.values())
    if held >= goal.ceiling(held) or move.waiting in said.message:
        return said
    return replace(said, message=f"{said.message} {move.waiting}")


def attested(it: Situation) -> Said:
    """Whether what serves is what its revision says.

    A pod that hasn't been asked yet says nothing new: an operator that has just started finds the answers of before.
    """
    slots = [slot for _, arm in sorted(it.arms.items()) for slot in arm.standing]
    wrong = sorted(slot.difference for slot in slots if slot.difference is not None)
    if wrong:
        return Said("False", names.REASON_DIFFERS, _listed(wrong) + " They get no requests." * (len(wrong) > 1))
    ready = [slot.leader for slot in slots if slot.leader.ready]
    before = get_condition(it.desired.status.conditions, names.CONDITION_ATTESTED)
    if any(pod.verdict.kind == observe.PENDING for pod in ready) and before is not None and before.status != "Unknown":
        return Said(before.status, before.reason, before.message)
    for kind, reason in ((observe.SILENT, names.REASON_SILENT), (observe.UNCONFIRMED, names.REASON_IMAGE_UNCONFIRMED)):
        words = sorted(pod.verdict.words for pod in ready if pod.verdict.kind == kind)
        if words:
            return Said("Unknown", reason, _listed(words))
    if not ready or any(pod.verdict.kind == observe.PENDING for pod in ready):
        return Said("Unknown", names.REASON_PENDING, "No pod that serves has attested its files yet.")
    serving = sorted({pod.revision for pod in ready})
    nothing = [revision for revision in serving if not _expects(it, revision)]
    if nothing:
        return _nothing_expected(it, nothing[0])
    return Said("True", names.REASON_ATTESTED, " ".join(_attests(it, revision) for revision in serving))


def _expects(it: Situation, revision: Revision) -> bool:
    frozen = it.frozen.get(revision)
    return frozen is not None and frozen.expected is not None


def _nothing_expected(it: Situation, revision: Revision) -> Said:
    frozen = it.frozen.get(revision)
    if frozen is not None and frozen.stock:
        return Said(
            "Unknown",
            names.REASON_STOCK,
            f"Revision {revision} has spec.engine.build stock: nothing can say which files its engine runs.",
        )
    return Said(
        "Unknown",
        names.REASON_UNEXPECTED,
        f"Revision {revision} was made by an operator that asked for no attestation. The next one will be attested.",
    )


def _attests(it: Situation, revision: Revision) -> str:
    expected = it.frozen[revision].expected
    assert expected is not None
    off = sorted(name for name, state in expected.states.items() if state == DISABLED)
    switched = f", with {', '.join(off)} switched off" if off else ""
    return f"Revision {revision} runs series {expected.series} (manifest {expected.manifest_digest[:12]}){switched}."


def _listed(words: Sequence[str]) -> str:
    """The first few sentences; how many more there are."""
    more = f" And {len(words) - SENTENCES} more." if len(words) > SENTENCES else ""
    return " ".join(sentence(each) for each in words[:SENTENCES]) + more


def routable(it: Situation) -> Said:
    """Whether requests find a revision."""
    wanted = it.desired.spec.traffic
    namespace = it.desired.namespace
    nothing = Said("False", names.REASON_NOTHING_READY, "No slot has settled yet, so no revision takes requests.")
    if wanted is None:
        return _by_service(it) if serving(it.arms) else nothing
    if not it.route_api:
        return Said(
            "False",
            names.REASON_CRD_MISSING,
            f"spec.traffic needs {names.GATEWAY_API_VERSION} HTTPRoute, which this API server lacks: install it.",
        )
    if it.hostname_error:
        return Said("False", names.REASON_HOSTNAME_TAKEN, str(it.hostname_error))
    gateway = traffic.gateway_of(namespace, wanted)
    accepted = traffic.accepted(it.route, wanted, namespace) if it.route else None
    if it.route is not None and accepted is False:
        words = traffic.refusal(it.route, wanted, namespace)
        return Said("False", names.REASON_ROUTE_REFUSED, sentence(f"Gateway {gateway} refuses the route: {words}"))
    if not it.weights:
        return nothing
    live = traffic.live_weights(it.desired.name, it.route)
    shares = ", ".join(f"{revision} {weight}" for revision, weight in sorted(live.items()))
    before = get_condition(it.desired.status.conditions, names.CONDITION_ROUTABLE)
    meanwhile = it.route is not None and traffic.accepted_before(it.route, wanted, namespace)
    went_on = meanwhile and before is not None and before.reason == names.REASON_ROUTE_ACCEPTED
    if it.road_in_force and live and (accepted or went_on):
        return Said("True", names.REASON_ROUTE_ACCEPTED, f"Gateway {gateway} takes the route; weights: {shares}.")
    heard = it.route is None or traffic.heard_of(it.route, wanted, namespace)
    or_else = "" if heard else "; if it doesn't exist, make it or correct spec.traffic.gateway"
    return Said("False", names.REASON_ROUTE_PENDING, f"Waits for gateway {gateway} to accept the route{or_else}.")


def _by_service(it: Situation) -> Said:
    service = f"Service {it.desired.name}"
    if it.service:
        return Said("True", names.REASON_NO_ROUTE, f"No spec.traffic: requests come by {service}.")
    return Said(
        "False",
        names.REASON_NO_SERVICE,
        f"No spec.traffic: requests would come by {service}, but this object has none of that name.",
    )


def _settled(it: Situation, goal: Goal) -> int:
    arm = it.arms.get(goal.target)
    return arm.settled(goal.settle, it.now) if arm else 0


def _only(arms: Mapping[Revision, Arm], target: Revision) -> bool:
    return all(arm.replicas == 0 for arm in arms.values() if arm.revision != target)


def _revision(it: Situation, revision: Revision | None) -> RevisionStatus | None:
    if revision is None:
        return None
    arm = it.arms.get(revision, Arm(revision, 0))
    frozen = it.frozen.get(revision)
    return RevisionStatus(
        revision=revision,
        engine_version=frozen.engine_version if frozen else "unknown",
        image=frozen.image if frozen else "unknown",
        slots=it.move.replicas.get(revision, 0) if it.move else arm.replicas,
        ready=arm.ready,
        weight=it.weights.get(revision, 0),
    )


def _run(it: Situation, candidate: Revision | None, said: Said) -> RunStatus | None:
    """The replacement under way; `since` moves only with revision or phase."""
    if it.goal is None or it.move is None or candidate is None or (it.course and not it.course.ungated):
        return None
    before, old = it.desired.status.run, it.desired.status.candidate
    phase = it.move.phase or "Settling"
    same = before is not None and old is not None and old.revision == candidate and before.phase == phase
    arm = it.arms.get(candidate, Arm(candidate, 0))
    return RunStatus(
        step=f"{arm.settled(it.goal.settle, it.now)}/{it.goal.replicas}",
        phase=phase,
        since=before.since if same and before is not None else it.now,
        message=said.message[:1024],
    )


def refused(
    status: Status, before: Status, children: Sequence[tuple[str, str]], generation: int, now: datetime
) -> Status:
    """`status`, saying which children couldn't be written, each (reason, message).

    `before` is what the object says now: the time of its last transition counts, not that of the plan just made.
    """
    said = " ".join(sentence(message) for _, message in children)
    others = [each for each in status.conditions if each.type != names.CONDITION_PROGRESSING]
    held = [each for each in before.conditions if each.type == names.CONDITION_PROGRESSING]
    conditions = set_condition(
        [*others, *held],
        type=names.CONDITION_PROGRESSING,
        status="False",
        reason=children[0][0],
        message=said,
        generation=generation,
        now=now,
    )
    return status.model_copy(update={"conditions": conditions})


def unreadable(
    conditions: tuple[Condition, ...], errors: tuple[FieldError, ...], generation: int, now: datetime
) -> tuple[Condition, ...]:
    """Conditions of an object that breaks its own schema: it can't be planned, so its children stay as they are."""
    said = " ".join(str(error) for error in errors)
    return set_condition(
        conditions,
        type=names.CONDITION_PROGRESSING,
        status="False",
        reason=names.REASON_INVALID_SPEC,
        message=f"The object can't be read, so its children stay as they are. {said}",
        generation=generation,
        now=now,
    )
