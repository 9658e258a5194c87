"""A cluster as a pure model, for tests of the planner: an API server's objects, and whoever acts on them.

ReplicaSet controller, kubelet, endpoints controller and gateway each are one method: a test can run them in any
order, stop the operator between two writes, and let time pass where it wants to. No stand-in for the real thing:
tests/cluster runs on that.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from builders import DeploymentBuilder

from specdecode_operator.api import names
from specdecode_operator.api.catalogue import CATALOGUE
from specdecode_operator.api.types import SpecDecodeDeployment
from specdecode_operator.plan.actions import Action, Apply, Delete, Patch
from specdecode_operator.plan.observe import Observed, process_of, revision_of
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
    stuck: set[str] = field(default_factory=set)
    """UIDs of pods that hold their GPUs whatever they are told."""
    refused_annotations: set[str] = field(default_factory=set)
    """Keys of annotations that it refuses in a template."""
    gateway_up: bool = True
    programmed: dict[str, int] = field(default_factory=dict)
    """Weights that the gateway goes by; the route may say others by now."""
    smuggled: set[str] = field(default_factory=set)
    """Revisions that somebody put into the route since the operator last looked."""
    images: dict[str, str] = field(default_factory=dict)
    """Revision to the image that it was frozen with, whatever becomes of the ControllerRevision."""
    unreachable: set[str] = field(default_factory=set)
    """UIDs and images of pods that the operator has had no answer from since it started."""
    lies: dict[str, Said] = field(default_factory=dict)
    """Image, or a pod's UID, to what engines say of their files, in place of the truth."""
    stale: dict[str, Answer] = field(default_factory=dict)
    """UID to what the process before said of those pods whose new one hasn't been asked yet."""
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
        """With it goes what would tell who was put into the route by whom."""
        self.obj["status"] = {}
        self.smuggled.clear()

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
        """What the pods that run have said when they were asked last."""
        heard = {
            uid: Answer(process_of(pod), self.lies.get(uid) or self.lies.get(image_of(pod)) or attestation(pod))
            for uid, pod in self.pods.items()
            if process_of(pod) and not {uid, image_of(pod)} & self.unreachable
        }
        return {**heard, **self.stale}

    def said_by(self, pod: Json) -> Said | None:
        """What the process that runs in a pod has said, if it was asked already."""
        answer = self.attestations().get(pod["metadata"]["uid"])
        return answer.said if answer is not None and answer.process == process_of(pod) else None

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
            if self.refuses(action):
                refusals.append(
                    (names.REASON_CHILD_REFUSED, f"{described(action)} is refused by the API server: invalid")
                )
            else:
                self.carry_out(action)
            left = None if left is None else left - 1
        if left == 0:
            raise Crashed
        before, generation = self.parsed().status, self.obj["metadata"]["generation"]
        status = refused(made.status, before, refusals, generation, self.now) if refusals else made.status
        self.obj["status"] = status.model_dump(by_alias=True, exclude_none=True, mode="json")
        self.events += [event.message for event in made.events]
        self.smuggled.clear()
        return made

    def refuses(self, action: Action) -> bool:
        """Whether the API server takes the template of an action's workload amiss."""
        if not isinstance(action, Apply) or action.manifest["kind"] != "ReplicaSet":
            return False
        template = action.manifest["spec"]["template"]
        return image_of(template) in self.refused_images or bool(
            self.refused_annotations & {*template["metadata"]["annotations"]}
        )

    def outcome(self, action: Action) -> Json | None:
        """The object as it would be after the action; None if it would be gone."""
        if isinstance(action, Apply):
            return action.manifest
        live = self.pod_named(action.name) if action.kind == "Pod" else self.children.get((action.kind, action.name))
        if live is None or isinstance(action, Delete):
            return None
        after = copy.deepcopy(live)
        merge(after, action.patch)
        return after

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
        if kind == "ControllerRevision":
            self.images.setdefault(name.rpartition("-")[2], action.manifest["data"]["image"])
        item = copy.deepcopy(action.manifest)
        meta = item["metadata"]
        meta.update(uid=live["metadata"]["uid"] if live else self._next(), resourceVersion=self._next())
        meta["creationTimestamp"] = live["metadata"]["creationTimestamp"] if live else stamp(self.now)
        generation = live["metadata"]["generation"] if live else 0
        meta["generation"] = generation + (live is None or live.get("spec") != item.get("spec"))
        if live and "status" in live:
            item["status"] = live["status"]
        self.children[(kind, name)] = item
        if kind == "HTTPRoute":
            self.smuggled.clear()

    def _patch(self, action: Patch) -> None:
        if action.kind == "Pod":
            pod = self.pod_named(action.name)
            if pod is not None and pod["metadata"]["uid"] == action.patch["metadata"]["uid"]:
                merge(pod, action.patch)
            return
        item = self.children[(action.kind, action.name)]
        if action.patch.get("metadata", {}).get("resourceVersion") not in (None, item["metadata"]["resourceVersion"]):
            raise Stale
        spec = copy.deepcopy(item.get("spec"))
        merge(item, action.patch)
        item["metadata"]["generation"] += item.get("spec") != spec
        item["metadata"]["resourceVersion"] = self._next()
        if action.kind == "HTTPRoute":
            self.smuggled.clear()

    def _delete(self, action: Delete) -> None:
        if action.kind == "Pod":
            self.terminate(self.pods[action.uid])
            return
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
            for pod in alive:
                pod["metadata"]["ownerReferences"] = owned_by(item)
            for _ in range(item["spec"]["replicas"] - len(alive)):
                self._make_pod(item, revision)
            surplus = len(alive) - item["spec"]["replicas"]
            for pod in sorted(alive, key=_goes_first)[: max(surplus, 0)]:
                self.terminate(pod)

    def kubelet(self) -> None:
        """Start what can start, and finish what was told to go."""
        for pod in list(self.pods.values()):
            if terminating(pod) and pod["metadata"]["uid"] in self.stuck:
                continue
            if terminating(pod):
                del self.pods[pod["metadata"]["uid"]]
            elif finished(pod):
                continue
            elif self.can_start(pod) and not is_ready(pod):
                self.set_ready(pod, True)

    def can_start(self, pod: Json) -> bool:
        """Whether its engine gets ready."""
        return image_of(pod) not in self.bad_images

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

    def attestor(self) -> None:
        """Ask whoever can be reached."""
        self.stale.clear()

    def gateway(self) -> None:
        route = self.route
        if not self.gateway_up:
            return
        self.programmed = self.routed()
        if route is None:
            return
        conditions = [
            {"type": kind, "status": "True", "observedGeneration": route["metadata"]["generation"]}
            for kind in ("Accepted", "ResolvedRefs")
        ]
        route["status"] = {"parents": [{"parentRef": route["spec"]["parentRefs"][0], "conditions": conditions}]}

    def orphan(self, workload: Json) -> None:
        """Somebody deletes a workload from above its pods."""
        del self.children[(workload["kind"], workload["metadata"]["name"])]
        for pod in self.pods_of(selected(workload)):
            pod["metadata"].pop("ownerReferences", None)

    def smuggle(self, revision: str) -> None:
        """Somebody adds a revision to the route."""
        assert self.route is not None
        self.route["metadata"]["generation"] += 1
        refs = self.route["spec"]["rules"][0].setdefault("backendRefs", [])
        name = f"{self.obj['metadata']['name']}-{revision}"
        refs.append({"kind": "Service", "name": name, "port": names.PORT, "weight": 9})
        self.smuggled.add(revision)

    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def others(self) -> None:
        """Everybody but the operator once, and time enough for a pod to settle."""
        self.replicaset_controller()
        self.kubelet()
        self.endpoints_controller()
        self.attestor()
        self.gateway()
        self.pass_time(10)

    def round(self) -> Plan:
        """Everybody once, and time enough for a pod to settle; the operator also sees the gateway lag behind."""
        self.replicaset_controller()
        self.kubelet()
        self.endpoints_controller()
        self.attestor()
        self.reconcile()
        self.gateway()
        self.pass_time(10)
        return self.reconcile()

    def settle(self, rounds: int = 200) -> Plan:
        """Rounds until nobody gets anything done."""
        for _ in range(rounds):
            before = self.state()
            made = self.round()
            if before == self.state() and all(self.refuses(action) for action in made.actions):
                return made
        raise AssertionError(f"not at rest after {rounds} rounds: {self.obj['status']}")

    def state(self) -> str:
        """All that there is but the time, to be compared."""
        return json.dumps([self.obj["status"], [*self.children.values()], self.pods])

    # --- Looking ------------------------------------------------------------------------------------------------------

    @property
    def route(self) -> Json | None:
        return self.children.get(("HTTPRoute", self.obj["metadata"]["name"]))

    def workloads(self) -> list[Json]:
        return [item for (kind, _), item in sorted(self.children.items()) if kind == "ReplicaSet"]

    def replicas(self) -> dict[str, int]:
        return {selected(item): item["spec"]["replicas"] for item in self.workloads()}

    def pods_of(self, revision: str) -> list[Json]:
        """Pods of a revision that hold their GPUs."""
        return [pod for pod in self.pods.values() if revision_of(pod) == revision and not finished(pod)]

    def pod_named(self, name: str) -> Json | None:
        return next((pod for pod in self.pods.values() if pod["metadata"]["name"] == name), None)

    def serving(self) -> int:
        return sum(serves(pod) for pod in self.pods.values())

    def serving_for_good(self) -> int:
        """Slots that serve and will go on to, once the ReplicaSet controller has done what it was told."""
        replicas = self.replicas()
        ready = {revision: sum(serves(pod) for pod in self.pods_of(revision)) for revision in replicas}
        alone = sum(serves(pod) and left_alone(pod) for pod in self.pods.values() if revision_of(pod) not in replicas)
        return alone + sum(min(ready[revision], replicas[revision]) for revision in replicas)

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

    def evict(self, pod: Json) -> None:
        """Its node had no room: it has ended, and stays to be looked at."""
        self.set_ready(pod, False)
        pod["status"]["phase"] = "Failed"

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
                "ownerReferences": owned_by(item),
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


def owned_by(workload: Json) -> list[Json]:
    meta = workload["metadata"]
    return [{"kind": workload["kind"], "name": meta["name"], "uid": meta["uid"], "controller": True}]


def left_alone(pod: Json) -> bool:
    """Whether its workload was deleted from above it."""
    return "ownerReferences" not in pod["metadata"]


def described(action: Apply) -> str:
    return f"{action.manifest['kind']} {action.manifest['metadata']['name']}"


def stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def is_ready(pod: Json) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"]["conditions"])


def serves(pod: Json) -> bool:
    """Whether it is in its Services, and will stay there."""
    return is_ready(pod) and not terminating(pod) and pod["metadata"]["labels"].get(names.LABEL_SERVES) == "true"


def terminating(pod: Json) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def finished(pod: Json) -> bool:
    """Whether it has ended and holds no GPU any more."""
    return pod["status"]["phase"] == "Failed"


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
