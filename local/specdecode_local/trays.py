"""Simulated GB200 trays: kwok nodes that the real scheduler fills, labelled as a rack's nodes are.

Eighteen trays of four GPUs make one rack, which is one NVLink clique.
"""

from __future__ import annotations

from typing import Any

from specdecode_local import kubectl
from specdecode_local.components.kwok import NODE_ANNOTATION

TRAYS_PER_RACK = 18
GPUS = 4
CPUS = 144
MEMORY = "960Gi"
CLUSTER_UUID = "5b3f7c1e-6d0a-4c7e-9f55-2a9f0c8d1e42"
"""Stands where the driver's cluster id would; the clique label is `<cluster id>.<clique>`."""

LABEL = "specdecode.io/tray"


def name(index: int) -> str:
    return f"tray-{index:02d}"


def node(index: int) -> dict[str, Any]:
    """The index-th tray; the rack follows from it."""
    rack = index // TRAYS_PER_RACK
    resources = {
        "cpu": str(CPUS),
        "memory": MEMORY,
        "pods": "110",
        "ephemeral-storage": "3Ti",
        "nvidia.com/gpu": str(GPUS),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name(index),
            "annotations": {NODE_ANNOTATION: "fake", "node.alpha.kubernetes.io/ttl": "0"},
            "labels": {
                LABEL: "true",
                "type": "kwok",
                "kubernetes.io/arch": "arm64",
                "kubernetes.io/os": "linux",
                "kubernetes.io/hostname": name(index),
                "nvidia.com/gpu.present": "true",
                "nvidia.com/gpu.product": "NVIDIA-GB200",
                "nvidia.com/gpu.count": str(GPUS),
                "nvidia.com/gpu.memory": "189471",
                "nvidia.com/gpu.clique": f"{CLUSTER_UUID}.{rack}",
                "topology.kubernetes.io/zone": "local",
                "topology.kubernetes.io/region": "local",
                "topology.kubernetes.io/rack": f"rack-{rack}",
            },
        },
        "spec": {"taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]},
        "status": {"capacity": resources, "allocatable": resources},
    }


def surplus(existing: list[str], count: int) -> list[str]:
    """Trays beyond the wanted count."""
    wanted = {name(index) for index in range(count)}
    return sorted(set(existing) - wanted)


def absent(existing: list[str], count: int) -> list[int]:
    return [index for index in range(count) if name(index) not in existing]


def existing() -> list[str]:
    return [item["metadata"]["name"] for item in kubectl.get("nodes", "-l", LABEL)["items"]]


def ensure(count: int) -> tuple[int, int]:
    """Makes it exactly `count` trays. Returns how many were added and removed; pods on removed ones go with them."""
    there = existing()
    excess = surplus(there, count)
    if excess:
        kubectl.run("delete", "node", *excess, "--wait=false")
    missing = absent(there, count)
    if missing:
        kubectl.apply([node(index) for index in missing])
        kubectl.wait(unready, what="trays", seconds=60)
    return len(missing), len(excess)


def unready() -> str | None:
    """None when every tray is Ready."""
    waiting = []
    for item in kubectl.get("nodes", "-l", LABEL)["items"]:
        conditions = {entry["type"]: entry["status"] for entry in item["status"].get("conditions", [])}
        if conditions.get("Ready") != "True":
            waiting.append(item["metadata"]["name"])
    return f"not ready: {', '.join(waiting)}" if waiting else None
