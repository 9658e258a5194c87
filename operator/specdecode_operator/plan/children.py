"""The actions that make the children of one object what its plan says; none for those that are so already."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass

from specdecode_operator.api import names
from specdecode_operator.api.types import SpecDecodeDeployment
from specdecode_operator.build import (
    computedomain,
    controllerrevision,
    leaderworkerset,
    pdb,
    podmonitor,
    replicaset,
    service,
)
from specdecode_operator.build.frozen import Frozen
from specdecode_operator.build.owner import Owner
from specdecode_operator.plan import observe
from specdecode_operator.plan.actions import Action, Apply, Delete, Patch
from specdecode_operator.plan.canary.course import Course
from specdecode_operator.plan.canary.fresh import RESTARTS
from specdecode_operator.plan.differs import first_difference, has_beyond, merge_patch, repaired
from specdecode_operator.plan.observe import Json, Observed, Revision, by_name, revision_of_child
from specdecode_operator.plan.roles import History, outdated
from specdecode_operator.plan.rollout import Move, RouteView
from specdecode_operator.plan.slots import NEXT_TO_GO, Arm, Slot, first_to_go


@dataclass(frozen=True)
class Children:
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
        if needs_domain(each):
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

    def restart(self, slot: Slot | None) -> Iterator[Action]:
        """The end of the pod that a slot is restarted by; of a replica that spans nodes, the leader takes all along."""
        if slot is not None:
            pod = slot.leader
            yield Delete("v1", "Pod", pod.name, pod.uid, RESTARTS)

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


def left_behind(held: Iterable[Arm], move: Move) -> Iterator[Action]:
    """Pods of slots that are given up and that nothing scales any more."""
    for arm in held:
        surplus = len(arm.standing) - move.replicas.get(arm.revision, 0)
        for slot in first_to_go(arm)[: max(surplus, 0)] if arm.lost else ():
            for pod in slot.pods:
                yield Delete("v1", "Pod", pod.name, pod.uid, f"revision {arm.revision} gives its slot up")


def needs_domain(frozen: Frozen) -> bool:
    return bool(frozen.template["spec"].get("resourceClaims"))


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
