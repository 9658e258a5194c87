"""The shape of what was read: children, pods and slots of one object, and what others have claimed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, NewType

from specdecode_operator.api import names
from specdecode_operator.plan.testimony import Answer

if TYPE_CHECKING:
    from specdecode_operator.plan.canary.facts import Evidence

Json = dict[str, Any]
Revision = NewType("Revision", str)

ROUTES: Final = "HTTPRoute"
POD_MONITORS: Final = "PodMonitor"
LEADER_WORKER_SETS: Final = "LeaderWorkerSet"
COMPUTE_DOMAINS: Final = "ComputeDomain"


@dataclass(frozen=True)
class Observed:
    """All that is known of one object's surroundings, as the API server has it. The dicts are shared: never change
    them."""

    revisions: tuple[Json, ...] = ()
    """ControllerRevisions."""
    workloads: tuple[Json, ...] = ()
    """ReplicaSets and LeaderWorkerSets."""
    pods: tuple[Json, ...] = ()
    services: tuple[Json, ...] = ()
    slices: tuple[Json, ...] = ()
    """EndpointSlices of the services."""
    route: Json | None = None
    pdb: Json | None = None
    pod_monitor: Json | None = None
    compute_domains: tuple[Json, ...] = ()
    foreign_routes: tuple[Json, ...] = ()
    """HTTPRoutes of other objects of ours, in all namespaces that the operator serves."""
    pod_warnings: Mapping[str, str] = field(default_factory=dict)
    """Pod UID to the message of its newest warning event, for pods that a mount keeps from starting."""
    attestations: Mapping[str, Answer] = field(default_factory=dict)
    """Pod UID to what its process last said of its files."""
    capabilities: frozenset[str] = frozenset()
    """Kinds of other projects that this API server has."""
    config_maps: tuple[Json, ...] = ()
    """Plans and records of canaries."""
    evidence: Evidence | None = None
    """What was found out last for the canary."""


Kind = Literal["attested", "unconfirmed", "differs", "silent", "pending", "unexpected"]
ATTESTED: Final = "attested"
UNCONFIRMED: Final = "unconfirmed"
"""The files are right; the node names another image."""
DIFFERS: Final = "differs"
SILENT: Final = "silent"
"""Ready, asked again and again, and no answer."""
PENDING: Final = "pending"
UNEXPECTED: Final = "unexpected"
"""Its revision expects nothing."""


@dataclass(frozen=True)
class Verdict:
    """What is thought of a pod, and why, in sentences."""

    kind: Kind
    words: str = ""

    @property
    def trusted(self) -> bool:
        """Whether a revision may enter the route for this pod."""
        return self.kind in (ATTESTED, UNCONFIRMED, UNEXPECTED)


@dataclass(frozen=True)
class Pod:
    """One pod, as far as the planner cares."""

    name: str
    uid: str
    revision: Revision
    group: str
    """What it shares a slot with: itself, or its LeaderWorkerSet group."""
    index: int | None
    """Number of its LeaderWorkerSet group."""
    serves: bool
    ready: bool
    ready_since: datetime | None
    routable: bool
    """An EndpointSlice lists it as ready."""
    terminating: bool
    cost: int
    created: datetime
    raw: Json = field(repr=False, compare=False, hash=False)
    taken_out: bool = False
    """It is to serve and isn't in its Services: it isn't what its revision says, or somebody edited its label."""
    orphan: bool = False
    """Nothing owns it: its workload was deleted from above it."""
    asked: bool = False
    """It answers requests, so it is asked for its attestation too."""
    process: str = ""
    """Which process of the engine runs; empty while none does. It changes with each restart of the container."""
    attested_as: str = ""
    """The process that has attested its files, as noted on the pod."""
    verdict: Verdict = Verdict(UNEXPECTED)

    @property
    def node(self) -> str:
        """The node that it is on; empty while it has none."""
        return str((self.raw.get("spec") or {}).get("nodeName") or "")


def revision_of(item: Json) -> Revision:
    """The revision that a pod or an EndpointSlice belongs to, by its label; empty if it is of none."""
    return Revision((item["metadata"].get("labels") or {}).get(names.LABEL_REVISION, ""))


def revision_of_child(child: Json) -> Revision:
    """The revision that a child belongs to, by its name, which nobody can edit; empty if it is of none."""
    prefix = names.revision_child(child["metadata"]["labels"][names.LABEL_NAME], "")
    name: str = child["metadata"]["name"]
    return Revision(name.removeprefix(prefix) if name.startswith(prefix) else "")


def live_pods(observed: Observed) -> tuple[Pod, ...]:
    """Pods that hold their node's GPUs: all but those that have finished."""
    routable = _ready_targets(observed.slices)
    return tuple(
        _pod(raw, raw["metadata"]["uid"] in routable)
        for raw in observed.pods
        if (raw.get("status") or {}).get("phase") not in ("Succeeded", "Failed") and revision_of(raw)
    )


def _pod(raw: Json, routable: bool) -> Pod:
    meta = raw["metadata"]
    labels = meta.get("labels") or {}
    ready = condition(raw, "Ready") or {}
    terminating = meta.get("deletionTimestamp") is not None
    is_ready = ready.get("status") == "True" and not terminating
    return Pod(
        name=meta["name"],
        uid=meta["uid"],
        revision=revision_of(raw),
        group=labels.get(names.LWS_GROUP_KEY, meta["uid"]),
        index=_index(labels),
        serves=labels.get(names.LABEL_SERVES) == "true",
        ready=is_ready,
        ready_since=moment(ready.get("lastTransitionTime")) if is_ready else None,
        routable=routable and is_ready,
        terminating=terminating,
        cost=_cost(meta),
        created=moment(meta.get("creationTimestamp")) or datetime.min.replace(tzinfo=UTC),
        raw=raw,
        taken_out=leads(labels) and labels.get(names.LABEL_SERVES) != "true",
        orphan=not meta.get("ownerReferences"),
        asked=leads(labels),
        process=process_of(raw),
        attested_as=(meta.get("annotations") or {}).get(names.ANNOTATION_ATTESTED, ""),
    )


def leads(labels: Mapping[str, str]) -> bool:
    """Whether the pod is one that answers requests: all but the followers of a replica that spans nodes.

    Not told by the label that its Services select by, which can be removed by hand.
    """
    return names.LWS_GROUP_KEY not in labels or labels.get(names.LWS_WORKER_INDEX) == "0"


def process_of(raw: Json) -> str:
    """Which process of the engine a pod runs, so that what one attested isn't taken for another's; empty if none."""
    for state in (raw.get("status") or {}).get("containerStatuses") or ():
        if state.get("name") == names.CONTAINER and "running" in (state.get("state") or {}):
            return str(state.get("containerID") or f"restart {state.get('restartCount', 0)}")
    return ""


def _index(labels: Json) -> int | None:
    text = labels.get(names.LWS_GROUP_INDEX, "")
    return int(text) if text.isdigit() else None


def _cost(meta: Json) -> int:
    text = (meta.get("annotations") or {}).get(names.ANNOTATION_DELETION_COST, "0")
    try:
        return int(text)
    except ValueError:
        return 0


def _ready_targets(slices: tuple[Json, ...]) -> frozenset[str]:
    """UIDs of pods that a revision's own Service has as ready; absent `ready` means true, says the API."""
    return frozenset(
        endpoint["targetRef"]["uid"]
        for item in slices
        if revision_of(item)
        for endpoint in item.get("endpoints") or ()
        if (endpoint.get("conditions") or {}).get("ready", True) and (endpoint.get("targetRef") or {}).get("uid")
    )


def condition(item: Json, kind: str) -> Json | None:
    """The status condition of that type, or None."""
    for each in (item.get("status") or {}).get("conditions") or ():
        if each.get("type") == kind:
            found: Json = each
            return found
    return None


def moment(text: str | None) -> datetime | None:
    """A Kubernetes timestamp, with its zone."""
    return datetime.fromisoformat(text) if text else None


def by_name(items: tuple[Json, ...]) -> dict[str, Json]:
    """Items by name."""
    return {item["metadata"]["name"]: item for item in items}
