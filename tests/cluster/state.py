"""What a failed cluster test shows: object, children, pods, the events in order, the operator's last lines."""

from __future__ import annotations

import copy
from typing import Any

import yaml
from apiserver import BUDGET, EVENT, POD, REPLICA_SET, ROUTE, SDD, SERVICE, ApiServer, Object


def without_noise(obj: Object) -> Object:
    """The object without managedFields and the copy of itself that `kubectl apply` leaves in an annotation."""
    shown = copy.deepcopy(obj)
    shown["metadata"].pop("managedFields", None)
    annotations = shown["metadata"].get("annotations", {})
    annotations.pop("kubectl.kubernetes.io/last-applied-configuration", None)
    return shown


def pod_line(pod: Object) -> str:
    status = pod.get("status", {})
    ready = next((c["status"] for c in status.get("conditions", []) if c["type"] == "Ready"), "?")
    parts = [
        pod["metadata"]["name"],
        pod["metadata"]["uid"],
        status.get("phase", "?"),
        f"ready={ready}",
        f"node={pod['spec'].get('nodeName', 'none')}",
    ]
    if "deletionTimestamp" in pod["metadata"]:
        parts.append(f"terminating since {pod['metadata']['deletionTimestamp']}")
    for container in status.get("containerStatuses", []):
        parts.append(f"restarts={container['restartCount']}")
        for word in ("waiting", "terminated"):
            reason = container.get("state", {}).get(word)
            if reason:
                parts.append(f"{word}: {reason.get('reason')} {reason.get('message', '')}".strip())
    return "  ".join(parts)


def event_time(event: Object) -> str:
    return str(event.get("eventTime") or event.get("lastTimestamp") or event["metadata"]["creationTimestamp"])


def event_line(event: Object) -> str:
    about = event.get("involvedObject", {})
    count = event.get("count") or event.get("series", {}).get("count") or 1
    times = f" (x{count})" if count > 1 else ""
    kind, name = about.get("kind"), about.get("name")
    return (
        f"{event_time(event)}  {event.get('type')} {event.get('reason')} {kind}/{name}: {event.get('message')}{times}"
    )


def child_line(child: Object) -> str:
    spec: dict[str, Any] = child.get("spec", {})
    facts: dict[str, Any] = {
        key: spec[key] for key in ("replicas", "minAvailable", "selector", "hostnames") if key in spec
    }
    rules = spec.get("rules", [])
    if rules:
        facts["backends"] = [(b["name"], b.get("weight", 1)) for rule in rules for b in rule.get("backendRefs", [])]
    return f"{child['metadata']['name']}  {facts}  status={child.get('status', {})}"


def describe(api: ApiServer, namespace: str, operator_log: str = "") -> str:
    """Everything of one namespace that explains why an object is not where it should be."""
    lines = [f"--- state of namespace {namespace}"]
    for sdd in api.list(SDD, namespace):
        lines += ["--- SpecDecodeDeployment", yaml.safe_dump(without_noise(sdd), sort_keys=False)]
    for title, kind in (
        ("ReplicaSets", REPLICA_SET),
        ("Services", SERVICE),
        ("HTTPRoutes", ROUTE),
        ("PodDisruptionBudgets", BUDGET),
    ):
        lines += [f"--- {title}", *(child_line(child) for child in api.list(kind, namespace))]
    lines += ["--- pods", *(pod_line(pod) for pod in api.list(POD, namespace))]
    events = sorted(api.list(EVENT, namespace), key=event_time)
    lines += ["--- events", *(event_line(event) for event in events[-60:])]
    if operator_log:
        lines += ["--- the operator's last lines", operator_log]
    return "\n".join(lines)
