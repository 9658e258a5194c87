"""A cluster as a pure model, for tests of the planner: an API server's objects, and whoever acts on them.

ReplicaSet controller, kubelet, endpoints controller and gateway each are one method: a test can run them in any
order, stop the operator between two writes, and let time pass where it wants to. No stand-in for the real thing:
tests/cluster runs on that.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from builders import DeploymentBuilder

from specdecode_operator.api import names
from specdecode_operator.api.catalogue import CATALOGUE
from specdecode_operator.api.types import SpecDecodeDeployment
from specdecode_operator.plan.actions import Action, Apply, Delete, Patch
from specdecode_operator.plan.observe import Observed, process_of
from specdecode_operator.plan.plan import Plan, plan
from specdecode_operator.plan.status import refused
from specdecode_operator.plan.testimony import Absent, Answer, Attestation, Said

Json = dict[str, Any]
START = datetime(2026, 1, 1, tzinfo=UTC)
ALL = frozenset({"HTTPRoute", "PodMonitor", "LeaderWorkerSet", "ComputeDomain"})


class Crashed(Exception):
    """The operator was killed after a write."""


class Stale(Exception):
    """A write carried an old resource version."""


@dataclass
class Fleet:
    """One object with all that belongs to it."""

    obj: Json
    now: datetime = START
    capabilities: frozenset[str] = ALL
    foreign_routes: tuple[Json, ...] = ()
    children: dict[tuple[str, str], Json] = field(default_factory=dict)
    pods: dict[str, Json] = field(default_factory=dict)
    bad_images: set[str] = field(default_factory=set)
    refused_images: set[str] = field(default_factory=set)
    """Images whose templates the API server refuses, whatever is wrong with them."""
    refused_annotations: set[str] = field(default_factory=set)
    """Keys of annotations that it refuses in a template."""
    gateway_up: bool = True
    unreachable: set[str] = field(default_factory=set)
    """UIDs and images of pods that the operator has had no answer from since it started."""
    lies: dict[str, Said] = field(default_factory=dict)
    """Image to what its engines say of their files, in place of the truth."""
    before_write: Callable[[Action], None] = field(default=lambda _: None)
    events: list[str] = field(default_factory=list)
    _serial: int = 0

    @classmethod
    def of(cls, builder: DeploymentBuilder) -> Fleet:
        return cls({**builder.stored(), "status": {}})

    # --- The user -----------------------------------------------------------------------------------------------------

    def edit(self, change: Callable[[DeploymentBuilder], DeploymentBuilder]) -> None:
        """Change the object as a user would; a changed spec is a new generation."""
        changed = change(DeploymentBuilder(self.obj)).built()
        if changed["spec"] != self.obj["spec"]:
            changed["metadata"]["generation"] = self.obj["metadata"]["generation"] + 1
        self.obj = changed

    def lose_status(self) -> None:
        self.obj["status"] = {}

    # --- The operator -------------------------------------------------------------------------------------------------

    def parsed(self) -> SpecDecodeDeployment:
        return SpecDecodeDeployment.parse(self.obj)

    def observed(self) -> Observed:
        def all_of(*kinds: str) -> tuple[Json, ...]:
            return tuple(item for (kind, _), item in sorted(self.children.items()) if kind in kinds)

        name = self.obj["metadata"]["name"]
        return Observed(
            revisions=all_of("ControllerRevision"),
            workloads=all_of("ReplicaSet", "LeaderWorkerSet"),
            pods=tuple(self.pods.values()),
            services=all_of("Service"),
            slices=all_of("EndpointSlice"),
            route=self.children.get(("HTTPRoute", name)),
            pdb=self.children.get(("PodDisruptionBudget", name)),
            pod_monitor=self.children.get(("PodMonitor", name)),
            compute_domains=all_of("ComputeDomain"),
            foreign_routes=self.foreign_routes,
            attestations=self.attestations(),
            capabilities=self.capabilities,
        )

    def attestations(self) -> dict[str, Answer]:
        """What the pods that run have said when they were asked."""
        return {
            uid: Answer(process_of(pod), self.lies.get(image_of(pod)) or attestation(pod))
            for uid, pod in self.pods.items()
            if process_of(pod) and not {uid, image_of(pod)} & self.unreachable
        }

    def planned(self) -> Plan:
        return plan(self.parsed(), self.observed(), self.now)

    def reconcile(self, *, writes: int | None = None) -> Plan:
        """One reconcile; killed after so many writes, if given (the status is the last one)."""
        made = self.planned()
        left = writes
        refusals: list[tuple[str, str]] = []
        for action in made.actions:
            if left == 0:
                raise Crashed
            self.before_write(action)
            refusals += self.attempt(action)
            left = None if left is None else left - 1
        if left == 0:
            raise Crashed
        before, generation = self.parsed().status, self.obj["metadata"]["generation"]
        status = refused(made.status, before, refusals, generation, self.now) if refusals else made.status
        self.obj["status"] = status.model_dump(by_alias=True, exclude_none=True, mode="json")
        self.events += [event.message for event in made.events]
        return made

    def attempt(self, action: Action) -> list[tuple[str, str]]:
        """Carry an action out, unless the API server refuses it: then what it says."""
        if isinstance(action, Apply) and action.manifest["kind"] == "ReplicaSet":
            template = action.manifest["spec"]["template"]
            if image_of(template) in self.refused_images or self.refused_annotations & {
                *template["metadata"]["annotations"]
            }:
                name = action.manifest["metadata"]["name"]
                return [(names.REASON_CHILD_REFUSED, f"ReplicaSet {name} is refused by the API server: invalid")]
        self.carry_out(action)
        return []

    def carry_out(self, action: Action) -> None:
        """What the API server makes of an action."""
        if isinstance(action, Apply):
            self._apply(action)
        elif isinstance(action, Patch):
            self._patch(action)
        else:
            self._delete(action)

    def _apply(self, action: Apply) -> None:
        kind, name = action.manifest["kind"], action.manifest["metadata"]["name"]
        live = self.children.get((kind, name))
        if action.if_version and live and live["metadata"]["resourceVersion"] != action.if_version:
            raise Stale
        item = copy.deepcopy(action.manifest)
        meta = item["metadata"]
        meta.update(uid=live["metadata"]["uid"] if live else self._next(), resourceVersion=self._next())
        meta["creationTimestamp"] = live["metadata"]["creationTimestamp"] if live else stamp(self.now)
        generation = live["metadata"]["generation"] if live else 0
        meta["generation"] = generation + (live is None or live.get("spec") != item.get("spec"))
        if live and "status" in live:
            item["status"] = live["status"]
        self.children[(kind, name)] = item

    def _patch(self, action: Patch) -> None:
        if action.kind == "Pod":
            pod = next((pod for pod in self.pods.values() if pod["metadata"]["name"] == action.name), None)
            if pod is not None and pod["metadata"]["uid"] == action.patch["metadata"]["uid"]:
                merge(pod, action.patch)
            return
        item = self.children[(action.kind, action.name)]
        merge(item, action.patch)
        item["metadata"]["resourceVersion"] = self._next()

    def _delete(self, action: Delete) -> None:
        item = self.children.get((action.kind, action.name))
        if item is not None and item["metadata"]["uid"] == action.uid:
            del self.children[(action.kind, action.name)]
            if action.kind == "ReplicaSet":
                for pod in self.pods_of(selected(item)):
                    self.terminate(pod)

    # --- Everybody else -----------------------------------------------------------------------------------------------

    def replicaset_controller(self) -> None:
        """Make missing pods; of a surplus take the unready, then the cheapest, then the youngest."""
        for item in self.workloads():
            revision = selected(item)
            alive = [pod for pod in self.pods_of(revision) if not terminating(pod)]
            for _ in range(item["spec"]["replicas"] - len(alive)):
                self._make_pod(item, revision)
            surplus = len(alive) - item["spec"]["replicas"]
            for pod in sorted(alive, key=_goes_first)[: max(surplus, 0)]:
                self.terminate(pod)

    def kubelet(self) -> None:
        """Start what can start, and finish what was told to go."""
        for pod in list(self.pods.values()):
            if terminating(pod):
                del self.pods[pod["metadata"]["uid"]]
            elif image_of(pod) not in self.bad_images and not is_ready(pod):
                self.set_ready(pod, True)

    def endpoints_controller(self) -> None:
        for (kind, name), item in list(self.children.items()):
            revision = item["metadata"].get("labels", {}).get(names.LABEL_REVISION)
            if kind == "Service" and revision:
                self.children[("EndpointSlice", name)] = {
                    "kind": "EndpointSlice",
                    "metadata": {"name": name, "labels": dict(item["metadata"]["labels"])},
                    "endpoints": [
                        {
                            "targetRef": {"uid": pod["metadata"]["uid"]},
                            "conditions": {"ready": is_ready(pod) and not terminating(pod)},
                        }
                        for pod in self.pods_of(revision)
                        if item["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
                    ],
                }
        for key in [k for k in self.children if k[0] == "EndpointSlice" and ("Service", k[1]) not in self.children]:
            del self.children[key]

    def gateway(self) -> None:
        route = self.route
        if route is None or not self.gateway_up:
            return
        conditions = [
            {"type": kind, "status": "True", "observedGeneration": route["metadata"]["generation"]}
            for kind in ("Accepted", "ResolvedRefs")
        ]
        route["status"] = {"parents": [{"parentRef": route["spec"]["parentRefs"][0], "conditions": conditions}]}

    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def round(self) -> Plan:
        """Everybody once, and time enough for a pod to settle; the operator also sees the gateway lag behind."""
        self.replicaset_controller()
        self.kubelet()
        self.endpoints_controller()
        self.reconcile()
        self.gateway()
        self.pass_time(10)
        return self.reconcile()

    def settle(self, rounds: int = 200) -> Plan:
        """Rounds until the operator has nothing to do."""
        for _ in range(rounds):
            before = copy.deepcopy(self.obj["status"])
            made = self.round()
            if not made.actions and self.obj["status"] == before:
                return made
        raise AssertionError(f"not at rest after {rounds} rounds: {self.obj['status']}")

    # --- Looking ------------------------------------------------------------------------------------------------------

    @property
    def route(self) -> Json | None:
        return self.children.get(("HTTPRoute", self.obj["metadata"]["name"]))

    def workloads(self) -> list[Json]:
        return [item for (kind, _), item in sorted(self.children.items()) if kind == "ReplicaSet"]

    def replicas(self) -> dict[str, int]:
        return {selected(item): item["spec"]["replicas"] for item in self.workloads()}

    def pods_of(self, revision: str) -> list[Json]:
        return [pod for pod in self.pods.values() if pod["metadata"]["labels"][names.LABEL_REVISION] == revision]

    def serving(self) -> int:
        return sum(serves(pod) for pod in self.pods.values())

    def serving_for_good(self) -> int:
        """Slots that serve and will go on to, once the ReplicaSet controller has done what it was told."""
        replicas = self.replicas()
        ready = {revision: sum(serves(pod) for pod in self.pods_of(revision)) for revision in replicas}
        return sum(min(ready[revision], replicas[revision]) for revision in replicas)

    def routed(self) -> dict[str, int]:
        route = self.route
        refs = route["spec"]["rules"][0].get("backendRefs", []) if route else []
        prefix = self.obj["metadata"]["name"] + "-"
        return {ref["name"].removeprefix(prefix): ref["weight"] for ref in refs}

    def condition(self, kind: str) -> Json:
        return next(each for each in self.obj["status"]["conditions"] if each["type"] == kind)

    def set_ready(self, pod: Json, ready: bool) -> None:
        pod["status"]["phase"] = "Running"
        pod["status"].setdefault("containerStatuses", [self._started(pod)])
        pod["status"]["conditions"] = [
            {"type": "Ready", "status": str(ready), "lastTransitionTime": stamp(self.now)},
        ]

    def restart_container(self, pod: Json) -> None:
        """Its engine has died, and another process runs in the same pod."""
        pod["status"]["containerStatuses"] = [self._started(pod)]
        self.set_ready(pod, False)

    def _started(self, pod: Json) -> Json:
        image = image_of(pod)
        return {
            "name": names.CONTAINER,
            "image": image,
            "imageID": image,
            "containerID": f"containerd://{self._next()}",
            "state": {"running": {}},
        }

    def terminate(self, pod: Json) -> None:
        pod["metadata"].setdefault("deletionTimestamp", stamp(self.now))

    def _make_pod(self, item: Json, revision: str) -> None:
        uid = self._next()
        template = copy.deepcopy(item["spec"]["template"])
        self.pods[uid] = {
            "metadata": {
                **template["metadata"],
                "name": f"{item['metadata']['name']}-{uid}",
                "uid": uid,
                "creationTimestamp": stamp(self.now),
            },
            "spec": template["spec"],
            "status": {"phase": "Pending", "conditions": []},
        }

    def _next(self) -> str:
        self._serial += 1
        return str(self._serial)


def selected(workload: Json) -> str:
    """The revision of the pods that it counts as its own."""
    revision: str = workload["spec"]["selector"]["matchLabels"][names.LABEL_REVISION]
    return revision


def stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def is_ready(pod: Json) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"]["conditions"])


def serves(pod: Json) -> bool:
    """Whether it is in its Services, and will stay there."""
    return is_ready(pod) and not terminating(pod) and pod["metadata"]["labels"].get(names.LABEL_SERVES) == "true"


def terminating(pod: Json) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def attestation(pod: Json) -> Said:
    """What a pod of ours says of its files when nothing is wrong with them; without our package, nothing."""
    env = {each["name"]: each.get("value", "") for each in pod["spec"]["containers"][0]["env"]}
    expected = env.get(names.ENV_EXPECT_MANIFEST)
    series = next((each for each in CATALOGUE.series if each.manifest_digest == expected), None)
    if series is None:
        return Absent(404)
    off = [name for name in env.get(names.ENV_DISABLE, "").split(",") if name]
    return Attestation(True, series.line, series.manifest_digest, series.states(off))


def image_of(pod: Json) -> str:
    image: str = pod["spec"]["containers"][0]["image"]
    return image


def merge(target: Json, patch: Json) -> None:
    """RFC 7386."""
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict) and isinstance(target.get(key), dict):
            merge(target[key], value)
        else:
            target[key] = copy.deepcopy(value)


def _goes_first(pod: Json) -> tuple[bool, int, int]:
    cost = int(pod["metadata"].get("annotations", {}).get(names.ANNOTATION_DELETION_COST, 0))
    return (is_ready(pod), cost, -int(pod["metadata"]["uid"]))
