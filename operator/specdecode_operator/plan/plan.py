"""The plan of one object: what to write, in order, what to say, and when to look again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
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
    computedomain,
    controllerrevision,
    httproute,
    leaderworkerset,
    pdb,
    podmonitor,
    replicaset,
    service,
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
from specdecode_operator.plan.differs import first_difference, has_beyond, merge_patch, repaired
from specdecode_operator.plan.narrate import narrate
from specdecode_operator.plan.observe import Json, Observed, Pod, Revision, by_name, live_pods, revision_of_child
from specdecode_operator.plan.roles import History, Roles, history, outdated, roles, wanted_revision
from specdecode_operator.plan.rollout import Goal, Move, RouteView, heir, next_move
from specdecode_operator.plan.slots import NEXT_TO_GO, Arm, Slot, arms, first_to_go
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
    errors = field_errors(desired.spec, profile, allowed or Allowed(), catalogue)
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
        hostname_error=hostname_error,
        catalogue=catalogue,
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
    goal = Goal(cast.target, cast.stable, spec.replicas, floor, settle, swap=not it.errors, untried=new is not None)
    if course is not None:
        goal = replace(goal, target=course.target, slots=course.slots, trays=course.trays)
    can_return = cast.stable in past.frozen or cast.stable in _made(observed)
    goal = replace(goal, way_back=cast.stable != goal.target and can_return)
    as_it_is = {r: arm.replicas for r, arm in it.arms.items()}
    move = Move(as_it_is) if missing_api else _move(it, goal, course, view)
    attested = tuple(attestation.marks(it.arms.values()))
    if attestation.changes_who_serves(attested):
        move = replace(move, replicas=as_it_is, done=False, again=it.now + SOON)
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
    children = _Children(owner, observed, past, _without(frozen, stale), keep, view)
    actions = (
        *children.freeze(new),
        *children.thaw(stale),
        *children.runs(course),
        *children.services(),
        *children.workloads(move, it.arms, {goal.target, heir(it.arms, goal)}, missing_api),
        *_left_behind((arm for revision, arm in it.arms.items() if revision not in frozen), move),
        *children.route(route),
        *children.budget(floor, spec.replicas, frozen.get(cast.target)),
        *children.monitor(it.desired),
        *children.marks(move.mark),
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
    if _needs_domain(each) and observe.COMPUTE_DOMAINS not in observed.capabilities:
        return f"{names.COMPUTE_DOMAIN_API_VERSION} {observe.COMPUTE_DOMAINS}"
    return ""


def _needs_domain(frozen: Frozen) -> bool:
    return bool(frozen.template["spec"].get("resourceClaims"))


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


@dataclass(frozen=True)
class _Children:
    """Actions that make each child what it should be; nothing for those that are."""

    owner: Owner
    observed: Observed
    past: History
    frozen: Mapping[Revision, Frozen]
    keep: frozenset[Revision]
    view: RouteView | None

    def freeze(self, new: Json | None) -> Iterator[Action]:
        """A new ControllerRevision, before anything is made from it. Of an old one only the labels can be edited."""
        if new is not None:
            yield Apply(new, f"freezes revision {revision_of_child(new)}", fresh=True)
        for revision, live in self.past.objects.items():
            yield from _settle(controllerrevision.identity(self.owner, revision), live)

    def thaw(self, stale: Json | None) -> Iterator[Action]:
        """Away with a frozen revision that no pod came of; the next plan freezes it as the spec is now."""
        if stale is not None:
            yield _delete(stale, "no pod came of it, and the spec has other labels or annotations")

    def runs(self, course: Course | None) -> Iterator[Action]:
        """What a canary writes down, and records beyond those that are kept."""
        if course is None:
            return
        live = by_name(self.observed.config_maps)
        for manifest in course.writes:
            item = live.get(manifest["metadata"]["name"])
            if item is None:
                yield Apply(manifest, "writes the canary's run down", fresh=True)
            elif not manifest.get("immutable"):
                yield Apply(manifest, "takes the canary's run further", item["metadata"].get("resourceVersion"))
        for item in course.removals:
            yield _delete(item, "older than the runs that are kept")

    def services(self) -> Iterator[Action]:
        """One for all, and one for each revision that has slots."""
        live = by_name(self.observed.services)
        for revision in sorted(self.keep):
            desired = service.for_revision(self.owner, revision)
            yield from _settle(desired, live.get(desired["metadata"]["name"]))
        yield from _settle(service.for_all(self.owner), live.get(self.owner.name))

    def workloads(
        self, move: Move, held: Mapping[Revision, Arm], takers: Container[Revision], missing_api: str
    ) -> Iterator[Action]:
        """The ReplicaSets or LeaderWorkerSets, with the replicas of this move.

        Those of `takers` are made before they have a slot: whether the API server takes them is known then. One whose
        pods were left behind is made again even for none: it adopts them, and takes them down.
        """
        live = by_name(self.observed.workloads)
        for revision in sorted(self.keep):
            name = names.revision_child(self.owner.name, revision)
            item, each = live.get(name), self.frozen.get(revision)
            replicas = move.replicas.get(revision, 0)
            if each is None:
                yield from _rescale(item, replicas)
            elif (item or replicas or revision in takers or _stands(held.get(revision))) and not (
                missing_api and each.nodes_per_replica > 1
            ):
                yield from self._workload(each, replicas, item)

    def _workload(self, each: Frozen, replicas: int, live: Json | None) -> Iterator[Action]:
        if each.nodes_per_replica == 1:
            yield from _settle(replicaset.build(self.owner, each, replicas), live)
            return
        if _needs_domain(each):
            domains = by_name(self.observed.compute_domains)
            domain = computedomain.build(self.owner, each)
            yield from _settle(domain, domains.get(domain["metadata"]["name"]))
        yield from _settle(leaderworkerset.build(self.owner, each, replicas), live)

    def route(self, wanted: Json | None) -> Iterator[Action]:
        """The HTTPRoute, or none."""
        live = self.observed.route
        if wanted is not None:
            yield from _settle(wanted, live)
        elif live is not None:
            yield _delete(live, "no spec.traffic that it could serve")

    def budget(self, floor: int, replicas: int, each: Frozen | None) -> Iterator[Action]:
        """The PodDisruptionBudget."""
        followers = (each.nodes_per_replica - 1) * replicas if each else 0
        yield from _settle(pdb.build(self.owner, floor, followers=followers), self.observed.pdb)

    def monitor(self, desired: SpecDecodeDeployment) -> Iterator[Action]:
        """The PodMonitor, where there is somebody to read it."""
        if observe.POD_MONITORS in self.observed.capabilities:
            yield from _settle(podmonitor.build(self.owner, desired.spec.metrics), self.observed.pod_monitor)

    def marks(self, slot: Slot | None) -> Iterator[Action]:
        """The mark on the pod whose slot goes next. Its uid: a pod of the same name later is another one."""
        if slot is not None:
            pod = slot.leader
            meta = {"uid": pod.uid, "annotations": {names.ANNOTATION_DELETION_COST: str(NEXT_TO_GO)}}
            yield Patch("v1", "Pod", pod.name, {"metadata": meta}, "marks the slot that moves next")

    def removals(self) -> Iterator[Action]:
        """What a revision without slots leaves behind, and history beyond what is kept."""
        routed = self.view.revisions if self.view else frozenset()
        for item in (*self.observed.workloads, *self.observed.services, *self.observed.compute_domains):
            revision = revision_of_child(item)
            if revision and revision not in self.keep and revision not in routed:
                yield _delete(item, f"revision {revision} has no slot any more")
        for item in outdated(self.past, self.keep):
            yield _delete(item, "older than the history that is kept")


def _stands(arm: Arm | None) -> bool:
    return arm is not None and bool(arm.standing)


def _left_behind(held: Iterable[Arm], move: Move) -> Iterator[Action]:
    """Pods of slots that are given up and that nothing scales any more."""
    for arm in held:
        surplus = len(arm.standing) - move.replicas.get(arm.revision, 0)
        for slot in first_to_go(arm)[: max(surplus, 0)] if arm.lost else ():
            for pod in slot.pods:
                yield Delete("v1", "Pod", pod.name, pod.uid, f"revision {arm.revision} gives its slot up")


def _settle(desired: Json, live: Json | None) -> Iterator[Action]:
    """What makes `live` as `desired`: nothing, an apply, or a patch that takes additions of others away."""
    if live is None:
        yield Apply(desired, "makes it", fresh=True)
        return
    if live["metadata"].get("deletionTimestamp"):
        return
    path = first_difference(desired, live)
    if path is None:
        return
    version = live["metadata"].get("resourceVersion")
    if _immutable(path, desired["kind"]):
        yield _delete(live, f"{path} can't be changed back; it is made anew")
    elif has_beyond(desired, live) or desired["kind"] == "ControllerRevision":
        patch = merge_patch(live, repaired(desired, live))
        patch.setdefault("metadata", {})["resourceVersion"] = version
        yield Patch(desired["apiVersion"], desired["kind"], desired["metadata"]["name"], patch, f"sets {path} back")
    else:
        why = "scales it" if path == "spec.replicas" else f"sets {path}"
        yield Apply(desired, why, version if "replicas" in desired.get("spec", {}) else None)


def _immutable(path: str, kind: str) -> bool:
    """Whether the API server refuses to change that path; only a child made by somebody else can differ there."""
    return kind == "ReplicaSet" and path.startswith("spec.selector")


def _rescale(live: Json | None, replicas: int) -> Iterator[Action]:
    """A revision whose ControllerRevision is gone can still be scaled, and nothing else of it may be touched."""
    if live is not None and live["spec"].get("replicas") != replicas:
        patch = {"metadata": {"resourceVersion": live["metadata"]["resourceVersion"]}, "spec": {"replicas": replicas}}
        yield Patch(live["apiVersion"], live["kind"], live["metadata"]["name"], patch, "scales it")


def _delete(item: Json, why: str) -> Delete:
    meta = item["metadata"]
    return Delete(item["apiVersion"], item["kind"], meta["name"], meta["uid"], why)
