"""Objects that the cluster's own programs need: their rights, and nothing else."""

from __future__ import annotations

from typing import Any

Manifest = dict[str, Any]

PREFIX = "specdecode-local"

READ = ["get", "list", "watch"]

RIGHTS: dict[str, list[tuple[list[str], list[str], list[str]]]] = {
    # (API groups, resources, verbs) for the user specdecode-local:<name>
    "coredns": [
        ([""], ["services", "namespaces", "pods"], READ),
        (["discovery.k8s.io"], ["endpointslices"], READ),
    ],
    "prometheus": [([""], ["pods"], READ)],
    "kwok": [
        ([""], ["nodes", "nodes/status", "pods/status"], [*READ, "patch", "update"]),
        ([""], ["pods"], [*READ, "patch", "update", "delete"]),
        ([""], ["events"], ["create", "patch", "update"]),
        (["coordination.k8s.io"], ["leases"], [*READ, "create", "patch", "update", "delete"]),
    ],
}


def base() -> list[Manifest]:
    """A role and its binding for each of our own programs."""
    return [manifest for name, rules in RIGHTS.items() for manifest in _rights(name, rules)]


def namespace(name: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _rights(name: str, rules: list[tuple[list[str], list[str], list[str]]]) -> list[Manifest]:
    own = f"{PREFIX}:{name}"
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": own},
        "rules": [{"apiGroups": groups, "resources": kinds, "verbs": verbs} for groups, kinds, verbs in rules],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": own},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": own},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": own}],
    }
    return [role, binding]
