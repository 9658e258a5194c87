"""The kinds that the operator reads and writes, and where the API server has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from specdecode_operator.api import names


@dataclass(frozen=True)
class Kind:
    """One kind at one version. `optional` kinds come with other people's CRDs and may be absent."""

    api_version: str
    kind: str
    plural: str
    optional: bool = False

    def path(self, namespace: str | None, name: str | None = None, subresource: str | None = None) -> str:
        """URL path of a collection (all namespaces if `namespace` is None), of an object, or of its subresource."""
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        parts = [root]
        if namespace is not None:
            parts.append(f"namespaces/{namespace}")
        parts += [part for part in (self.plural, name, subresource) if part]
        return "/".join(parts)


SDD: Final = Kind(names.API_VERSION, names.KIND, names.PLURAL)
EVENT: Final = Kind("v1", "Event", "events")
CONFIG_MAP: Final = Kind("v1", "ConfigMap", "configmaps")
POD: Final = Kind("v1", "Pod", "pods")
SERVICE: Final = Kind("v1", "Service", "services")
REPLICA_SET: Final = Kind("apps/v1", "ReplicaSet", "replicasets")
CONTROLLER_REVISION: Final = Kind("apps/v1", "ControllerRevision", "controllerrevisions")
ENDPOINT_SLICE: Final = Kind("discovery.k8s.io/v1", "EndpointSlice", "endpointslices")
PDB: Final = Kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")
HTTP_ROUTE: Final = Kind(names.GATEWAY_API_VERSION, "HTTPRoute", "httproutes", optional=True)
POD_MONITOR: Final = Kind(names.MONITORING_API_VERSION, "PodMonitor", "podmonitors", optional=True)
LEADER_WORKER_SET: Final = Kind(names.LWS_API_VERSION, "LeaderWorkerSet", "leaderworkersets", optional=True)
COMPUTE_DOMAIN: Final = Kind(names.COMPUTE_DOMAIN_API_VERSION, "ComputeDomain", "computedomains", optional=True)

WATCHED: Final = (
    CONTROLLER_REVISION,
    CONFIG_MAP,
    REPLICA_SET,
    POD,
    SERVICE,
    ENDPOINT_SLICE,
    PDB,
    HTTP_ROUTE,
    POD_MONITOR,
    LEADER_WORKER_SET,
    COMPUTE_DOMAIN,
)
"""Watched with the label selector of what is ours. The object itself is watched by kopf."""

BY_NAME: Final = {(kind.api_version, kind.kind): kind for kind in (SDD, EVENT, *WATCHED)}


def of(manifest: dict[str, object]) -> Kind:
    """The kind of a manifest; KeyError for one that the operator has no business with."""
    return BY_NAME[(str(manifest["apiVersion"]), str(manifest["kind"]))]
