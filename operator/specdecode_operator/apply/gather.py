"""Observed, from the store."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from specdecode_operator.apply import kinds
from specdecode_operator.apply.client import Api, ApiError, Json, Unreachable
from specdecode_operator.apply.store import Key, Store, owner_of
from specdecode_operator.plan.canary.facts import Evidence
from specdecode_operator.plan.observe import Observed, condition, moment
from specdecode_operator.plan.testimony import Answer

STUCK_AFTER: Final = timedelta(seconds=10)
"""A pod that has had a node for this long and no running container is asked what keeps it."""
SUMMARY: Final = "Unable to attach or mount volumes"
"""How the kubelet's events begin that say which volumes are missing and not why."""
PODS_ASKED: Final = 3
"""Pods of one object whose events are read in one reconcile."""


def gather(
    store: Store,
    key: Key,
    uid: str,
    capabilities: frozenset[str],
    warnings: Mapping[str, str],
    attestations: Mapping[str, Answer],
    evidence: Evidence | None = None,
) -> Observed:
    """What is known around the object. Children of an earlier object of the same name are not its own."""

    def ours(kind: kinds.Kind) -> tuple[Json, ...]:
        return tuple(item for item in store.of(kind, key) if _owned(item, uid))

    def one(kind: kinds.Kind) -> Json | None:
        return next((item for item in ours(kind) if item["metadata"]["name"] == key.name), None)

    foreign = (route for route in store.all(kinds.HTTP_ROUTE) if owner_of(route) != key)
    return Observed(
        revisions=ours(kinds.CONTROLLER_REVISION),
        workloads=(*ours(kinds.REPLICA_SET), *ours(kinds.LEADER_WORKER_SET)),
        pods=tuple(store.of(kinds.POD, key)),
        services=ours(kinds.SERVICE),
        slices=tuple(store.of(kinds.ENDPOINT_SLICE, key)),
        route=one(kinds.HTTP_ROUTE),
        pdb=one(kinds.PDB),
        pod_monitor=one(kinds.POD_MONITOR),
        compute_domains=ours(kinds.COMPUTE_DOMAIN),
        foreign_routes=tuple(foreign),
        pod_warnings=warnings,
        attestations=attestations,
        capabilities=capabilities,
        config_maps=ours(kinds.CONFIG_MAP),
        evidence=evidence,
    )


def _owned(item: Json, uid: str) -> bool:
    owners = item["metadata"].get("ownerReferences") or ()
    return not owners or any(owner.get("uid") == uid for owner in owners)


def predecessor(store: Store, key: Key, uid: str) -> str | None:
    """A child of an earlier object of the same name, which garbage collection has yet to remove."""
    kept = (item for kind in kinds.WATCHED for item in store.of(kind, key))
    for item in kept:
        for owner in item["metadata"].get("ownerReferences") or ():
            if owner.get("kind") == kinds.SDD.kind and owner.get("name") == key.name and owner.get("uid") != uid:
                return f"{item['kind']} {item['metadata']['name']}"
    return None


def creating(pods: list[Json]) -> bool:
    """Whether a pod has a node and no container yet: what keeps it may be told by events alone."""
    return any(_creating(pod) for pod in pods)


async def pod_warnings(api: Api, pods: list[Json], now: datetime) -> dict[str, str]:
    """Newest warning event of each pod that a mount or a volume keeps from starting: only events name the cause.

    Read, not watched: it matters for a few pods, rarely. A failure costs the words, nothing else.
    """
    stuck = [pod for pod in pods if _stuck(pod, now)][:PODS_ASKED]
    found: dict[str, str] = {}
    for pod in stuck:
        meta = pod["metadata"]
        query = {"fieldSelector": f"involvedObject.uid={meta['uid']},type=Warning", "limit": "50"}
        try:
            events = (await api.get(kinds.EVENT.path(meta["namespace"]), query)).get("items") or []
        except (ApiError, Unreachable):
            continue
        if words := mount_words(events):
            found[meta["uid"]] = words
    return found


def mount_words(events: list[Json]) -> str:
    """What keeps a pod's volumes from being mounted; empty if nothing does.

    Of the newest event, but not of those that only sum up that some volume wasn't mounted in time: they come every few
    minutes between those that name the cause, and a condition that repeated both in turn would be written each time.
    """
    mounts = [event for event in events if event.get("reason") in ("FailedMount", "FailedAttachVolume")]
    causes = [event for event in mounts if not event.get("message", "").startswith(SUMMARY)]
    newest = max(causes or mounts, key=_when, default={})
    return str(newest.get("message", ""))


def _stuck(pod: Json, now: datetime) -> bool:
    since = moment((condition(pod, "PodScheduled") or {}).get("lastTransitionTime"))
    return _creating(pod) and since is not None and now - since >= STUCK_AFTER


def _creating(pod: Json) -> bool:
    status = pod.get("status") or {}
    if status.get("phase") != "Pending" or pod["metadata"].get("deletionTimestamp"):
        return False
    waiting = [
        ((each.get("state") or {}).get("waiting") or {}).get("reason") for each in status.get("containerStatuses") or ()
    ]
    started = any(reason not in (None, "ContainerCreating", "PodInitializing") for reason in waiting)
    return (condition(pod, "PodScheduled") or {}).get("status") == "True" and not started


def _when(event: Json) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp") or "")
