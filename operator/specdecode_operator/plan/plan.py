"""The plan of one object: what to write, in order, what to say, and when to look again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from specdecode_operator.api import names
from specdecode_operator.api.catalogue import CATALOGUE, Catalogue
from specdecode_operator.api.errors import FieldError
from specdecode_operator.api.profiles import resolve
from specdecode_operator.api.status import Status
from specdecode_operator.api.traffic import Traffic
from specdecode_operator.api.types import SpecDecodeDeployment
from specdecode_operator.build import (
    controllerrevision,
    httproute,
)
from specdecode_operator.build.frozen import Frozen
from specdecode_operator.build.owner import Owner, owner_of
from specdecode_operator.plan import attestation, observe, traffic
from specdecode_operator.plan.actions import Action, Apply, Delete, Event, Patch
from specdecode_operator.plan.canary.course import Course
from specdecode_operator.plan.canary.course import course as canary_course
from specdecode_operator.plan.canary.facts import Want
from specdecode_operator.plan.canary.moves import give_back, holds_slots
from specdecode_operator.plan.canary.runs import runs_of, stable_of
from specdecode_operator.plan.canary.scene import Scene
from specdecode_operator.plan.children import Children, left_behind, needs_domain
from specdecode_operator.plan.narrate import narrate
from specdecode_operator.plan.observe import Json, Observed, Pod, Revision, by_name, live_pods, revision_of_child
from specdecode_operator.plan.roles import History, Roles, history, roles, wanted_revision
from specdecode_operator.plan.rollout import Goal, Move, RouteView, heir, next_move
from specdecode_operator.plan.slots import Arm, arms
from specdecode_operator.plan.status import Situation, status_of
from specdecode_operator.plan.trouble import Trouble, of_pod, of_workload
from specdecode_operator.plan.validate import Allowed, field_errors, hostname_taken

RIVAL_RETRY: Final = timedelta(seconds=15)
"""How often a claimed hostname is looked at again: its release is an event of somebody else's object."""
SOON: Final = timedelta(seconds=1)
"""Time for the ReplicaSet controller to see which pod is to go first."""


@dataclass(frozen=True)
class Plan:
    """What to do now. At rest: no actions, no events, and a status equal to the object's."""

    actions: tuple[Action, ...]
    status: Status
    events: tuple[Event, ...] = ()
    requeue_after: timedelta | None = None
    want: Want | None = None
    """What is to be found out for the canary, beside the reconciles."""


def plan(
    desired: SpecDecodeDeployment,
    observed: Observed,
    now: datetime,
    allowed: Allowed | None = None,
    catalogue: Catalogue = CATALOGUE,
) -> Plan:
    """Compare what is wanted with what is, and take the next step.

    Args:
        desired: the object, freshly read.
        observed: its children, pods, and what others have claimed.
        now: the time, in whole seconds: it ends up in status.
        allowed: what the chart allows to objects; nothing if absent.
        catalogue: the series of patches that engines may carry.
    """
    owner = owner_of(desired)
    profile = resolve(desired.spec.accelerator)
    allowed = allowed or Allowed()
    errors = field_errors(desired.spec, profile, allowed, catalogue)
    past = history(observed)
    held = _arms(desired, observed, past)
    wanted = wanted_revision(desired, past)
    cast = roles(desired, wanted, past, held, valid=not errors)
    if cast is not None and desired.status.stable is None and desired.spec.rollout.canary and not errors:
        known = stable_of(runs_of(desired.name, observed.config_maps), held)
        cast = Roles(known, cast.target) if known in past.frozen and known is not None else cast
    road, hostname_error = _traffic(desired, observed)
    situation = Situation(
        desired=desired,
        now=now,
        profile=profile,
        arms=held,
        frozen=past.frozen,
        goal=None,
        move=None,
        weights={},
        route=observed.route,
        errors=(*errors, *([hostname_error] if errors and hostname_error else [])),
        route_api=observe.ROUTES in observed.capabilities,
        service=owner.name in by_name(observed.services),
        hostname_error=hostname_error,
        catalogue=catalogue,
        verified_requests=allowed.verified_requests,
    )
    if cast is None:
        status = status_of(situation)
        return Plan((), status, narrate(desired.status, status, ()))
    return _plan_revisions(situation, observed, owner, past, cast, road)


def _plan_revisions(
    it: Situation, observed: Observed, owner: Owner, past: History, cast: Roles, road: Traffic | None
) -> Plan:
    spec = it.desired.spec
    settle = timedelta(seconds=spec.traffic.settle_seconds if spec.traffic else 0)
    floor = min(spec.min_available_or_default, spec.replicas)
    new = _freeze(owner, it, past, cast.target)
    frozen = {**past.frozen, **({cast.target: controllerrevision.frozen(new)} if new else {})}
    missing_api = _missing_api(frozen, cast, observed)
    routes = it.route_api and road is not None
    view = traffic.view(owner.name, owner.namespace, road, observed.route) if routes and road else None
    it = replace(it, frozen=frozen)
    course = _course(it, observed, owner, cast, view, settle)
    target = course.target if course else cast.target
    goal = Goal(
        target,
        cast.stable,
        spec.replicas,
        floor,
        settle,
        swap=not it.errors,
        untried=new is not None,
        way_back=cast.stable != target and (cast.stable in past.frozen or cast.stable in _made(observed)),
        slots=course.slots if course else None,
        surge=spec.rollout.surge_slots if target != cast.stable else 0,
        trays=course.trays if course else (),
    )
    as_it_is = {r: arm.replicas for r, arm in it.arms.items()}
    move = Move(as_it_is) if missing_api else _move(it, goal, course, view)
    attested = tuple(attestation.marks(it.arms.values()))
    restart = course.restart if course else None
    if attestation.changes_who_serves(attested):
        move, restart = replace(move, replicas=as_it_is, done=False, again=it.now + SOON), None
    weights = _weights(it, move, traffic.entered(view, it.desired.status) if view else None, settle)
    route = httproute.build(owner, road, weights) if routes and road else None
    it = replace(
        it,
        course=course,
        goal=goal,
        move=move,
        weights=weights,
        road_in_force=bool(route and observed.route and traffic.same_road(route, observed.route)),
        troubles=_troubles(it.arms, observed, cast),
        missing_api=missing_api,
    )
    status = status_of(it)
    keep = frozenset(r for r, arm in it.arms.items() if not arm.empty) | {goal.target, cast.stable}
    stale = _stale(owner, it, observed, past, cast)
    children = Children(owner, observed, past, _without(frozen, stale), keep, view)
    actions = (
        *children.freeze(new),
        *children.thaw(stale),
        *children.runs(course),
        *children.services(),
        *children.workloads(move, it.arms, {goal.target, heir(it.arms, goal)}, missing_api),
        *left_behind((arm for revision, arm in it.arms.items() if revision not in frozen), move),
        *children.route(route),
        *children.budget(floor, max(spec.replicas, sum(move.replicas.values())), frozen.get(cast.target)),
        *children.monitor(it.desired),
        *children.marks(move.mark),
        *children.restart(restart),
        *attested,
        *children.removals(),
    )
    return Plan(
        actions=tuple(sorted(actions, key=_order)),
        status=status,
        events=(*narrate(it.desired.status, status, actions), *(course.events if course else ())),
        requeue_after=_again(it, move),
        want=course.want if course else None,
    )


def _course(
    it: Situation, observed: Observed, owner: Owner, cast: Roles, view: RouteView | None, settle: timedelta
) -> Course | None:
    """What the canary comes to; None if there is none, or nothing new may begin."""
    if it.errors or not it.desired.spec.rollout.canary:
        return None
    return canary_course(
        Scene(
            desired=it.desired,
            now=it.now,
            owner=owner,
            profile=it.profile,
            stable=cast.stable,
            wanted=cast.target,
            arms=it.arms,
            frozen=it.frozen,
            view=view,
            settle=settle,
            config_maps=observed.config_maps,
            evidence=observed.evidence,
            verified_requests=it.verified_requests,
        )
    )


def _move(it: Situation, goal: Goal, course: Course | None, view: RouteView | None) -> Move:
    if course is not None and course.returning and goal.replicas and holds_slots(it.arms, goal.stable):
        return give_back(it.arms, goal, view)
    return next_move(it.arms, goal, view, it.now)


def _order(action: Action) -> int:
    """What a canary has seen, before anything is done on it. What a pod attested before the route that counts on it: an
    operator that dies in between has it from there, and would else take the revision out again. The route before the
    rest: it must have left a revision, and must not name a Service that isn't there yet. Marks of pods before the
    workloads that take one of them."""
    rank = ("ConfigMap", "ControllerRevision", "Service", attestation.NOTES, "HTTPRoute", "Pod")
    if isinstance(action, Delete):
        return len(rank) + 1
    if isinstance(action, Patch) and action.why == attestation.NOTES:
        return rank.index(attestation.NOTES)
    kind = action.manifest["kind"] if isinstance(action, Apply) else action.kind
    return rank.index(kind) if kind in rank else len(rank)


def _again(it: Situation, move: Move) -> timedelta | None:
    times = (move.again, it.course.again if it.course else None)
    waits = [max(at - it.now, timedelta()) for at in times if at is not None]
    return min([*waits, *([RIVAL_RETRY] if it.hostname_error else [])], default=None)


def _arms(desired: SpecDecodeDeployment, observed: Observed, past: History) -> dict[Revision, Arm]:
    """Arms of the revisions that can be acted on.

    Pods whose revision has neither a workload nor its frozen self any more go with their workload: garbage collection
    takes them. Only those that were left behind without an owner have to be taken down.
    """
    sizes = {revision: each.nodes_per_replica for revision, each in past.frozen.items()}
    pods = live_pods(observed)
    replicas = _asked_for(desired, observed, past, [pod for pod in pods if pod.asked])
    known = (pod for pod in pods if pod.revision in replicas or pod.revision in past.frozen)
    judged = [attestation.judged(pod, past.frozen, observed.attestations) for pod in known]
    return arms(replicas, judged, sizes, _made(observed))


def _made(observed: Observed) -> frozenset[Revision]:
    """Revisions whose workload is there to be scaled."""
    there = (item for item in observed.workloads if not item["metadata"].get("deletionTimestamp"))
    return frozenset(revision_of_child(item) for item in there)


def _asked_for(
    desired: SpecDecodeDeployment, observed: Observed, past: History, pods: Sequence[Pod]
) -> dict[Revision, int]:
    """Slots that each revision's workload asks for.

    A workload that somebody deleted comes back with the slots that status has for it, as far as others, whose slots may
    be held by pods on their way out, leave them free; and with those of its pods that were left behind, so that it
    adopts them: none is lost for it, and they can be given up one by one.
    """
    replicas = {revision_of_child(item): int(item["spec"].get("replicas", 1)) for item in observed.workloads}
    held = Counter(pod.revision for pod in pods)
    left: Counter[Revision] = Counter()
    for pod in pods:
        if pod.orphan and pod.revision not in replicas:
            left[pod.revision] += not pod.terminating
    for role in (desired.status.stable, desired.status.candidate):
        if role is not None and role.slots and role.revision in past.frozen:
            others = {*replicas, *held} - {role.revision}
            taken = sum(max(replicas.get(each, 0), held.get(each, 0)) for each in others)
            replicas.setdefault(Revision(role.revision), min(role.slots, max(desired.spec.replicas - taken, 0)))
    return {**replicas, **{revision: max(count, replicas.get(revision, 0)) for revision, count in left.items()}}


def _freeze(owner: Owner, it: Situation, past: History, target: Revision) -> Json | None:
    """The ControllerRevision of a revision that has none; None if it has one.

    Only the wanted revision can be rendered. It is rendered anew if somebody deleted its ControllerRevision.
    """
    if target in past.frozen or it.errors:
        return None
    spec = it.desired.spec
    series = it.catalogue.carried_by(spec.engine)
    return controllerrevision.build(owner, spec, it.profile, target, past.next_number, series=series)


def _stale(owner: Owner, it: Situation, observed: Observed, past: History, cast: Roles) -> Json | None:
    """The target's ControllerRevision, if it holds labels or annotations that the spec has no more and no pod ever came
    of it; None if it is to stay.

    They aren't in the hash, so a mistake in them would stay with the revision when the spec is right again. Where
    there is a workload, pods were made as it says, and that is never rendered again.
    """
    live = past.objects.get(cast.target)
    made = any(revision_of_child(item) == cast.target for item in observed.workloads)
    if live is None or it.errors or made or _served(it.arms.get(cast.target), past, cast):
        return None
    series = it.catalogue.carried_by(it.desired.spec.engine)
    new = controllerrevision.build(owner, it.desired.spec, it.profile, cast.target, live["revision"], series=series)
    return live if _pod_metadata(new) != _pod_metadata(live) else None


def _served(target: Arm | None, past: History, cast: Roles) -> bool:
    """Whether the target may have had pods. The first revision is called stable before it has any."""
    if cast.target == cast.stable:
        return len(past.objects) > 1 or (target is not None and bool(target.slots))
    return target is not None and not target.empty


def _pod_metadata(revision: Json) -> list[Json]:
    """Labels and annotations of the pods of a ControllerRevision: leader and followers."""
    data = revision["data"]
    return [data[key]["metadata"] for key in ("template", "workerTemplate") if key in data]


def _without(frozen: Mapping[Revision, Frozen], stale: Json | None) -> Mapping[Revision, Frozen]:
    """`frozen` without what is about to go: nothing is made from that any more."""
    gone = revision_of_child(stale) if stale else None
    return {revision: each for revision, each in frozen.items() if revision != gone}


def _missing_api(frozen: Mapping[Revision, Frozen], cast: Roles, observed: Observed) -> str:
    each = frozen.get(cast.target)
    if each is None or each.nodes_per_replica == 1:
        return ""
    if observe.LEADER_WORKER_SETS not in observed.capabilities:
        return f"{names.LWS_API_VERSION} {observe.LEADER_WORKER_SETS}"
    if needs_domain(each) and observe.COMPUTE_DOMAINS not in observed.capabilities:
        return f"{names.COMPUTE_DOMAIN_API_VERSION} {observe.COMPUTE_DOMAINS}"
    return ""


def _weights(it: Situation, move: Move, routed: frozenset[Revision] | None, settle: timedelta) -> dict[str, int]:
    if routed is None:
        return {}
    after = {r: replace(arm, replicas=min(arm.replicas, move.replicas.get(r, 0))) for r, arm in it.arms.items()}
    return traffic.weights(after, leaving=move.leaving, routed=routed, settle=settle, now=it.now)


def _traffic(desired: SpecDecodeDeployment, observed: Observed) -> tuple[Traffic | None, FieldError | None]:
    """The traffic that is in force, and what is wrong with the one that is asked for.

    A hostname that belongs to somebody else changes nothing for the requests that come already.
    """
    asked = desired.spec.traffic
    if asked is None:
        return None, None
    taken = traffic.rival(desired.namespace, asked, observed)
    if taken is None:
        return asked, None
    error = hostname_taken(*taken)
    before = traffic.in_force(asked, observed.route) if observed.route else None
    if before is None or traffic.rival(desired.namespace, before, observed) is not None:
        return None, error
    return before, error


def _troubles(held: Mapping[Revision, Arm], observed: Observed, cast: Roles) -> tuple[Trouble, ...]:
    """What is wrong, the target's first."""
    order = sorted(held, key=lambda revision: (revision != cast.target, revision != cast.stable, revision))
    found: list[Trouble] = []
    for revision in order:
        refused = [of_workload(item) for item in observed.workloads if revision_of_child(item) == revision]
        pods = [pod for slot in held[revision].slots for pod in slot.pods]
        each = [
            of_pod(pod, observed.pod_warnings.get(pod.uid)) or attestation.trouble(pod)
            for pod in sorted(pods, key=lambda pod: pod.name)
        ]
        short = held[revision].replicas > len(held[revision].standing)
        found += [trouble for trouble in (*(refused if short else ()), *each) if trouble]
    return tuple(found)
