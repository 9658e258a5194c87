"""The HTTPRoute `<name>`: which revision gets which share of the requests."""

from collections.abc import Mapping
from typing import Any

from specdecode_operator.api import names
from specdecode_operator.api.traffic import GatewayRef, Traffic
from specdecode_operator.build.owner import Owner, metadata


def build(owner: Owner, traffic: Traffic, weights: Mapping[str, int]) -> dict[str, Any]:
    """The route.

    Args:
        owner: the object.
        traffic: gateway, hostnames, path and time limit.
        weights: revision to weight, listing only revisions that may be routed to. Nothing listed: the gateway answers
            500, as the Gateway API says of a rule without backends.

    The time limit is always explicit: without one, Envoy cuts a stream after 15 s.
    """
    rule: dict[str, Any] = {
        "matches": [{"path": {"type": "PathPrefix", "value": traffic.path}}],
        "timeouts": {"request": traffic.request_timeout},
    }
    if weights:
        rule["backendRefs"] = [_backend(owner, revision, weights[revision]) for revision in sorted(weights)]
    spec: dict[str, Any] = {"parentRefs": [_parent(owner, traffic.gateway)], "rules": [rule]}
    if traffic.hostnames:
        spec["hostnames"] = list(traffic.hostnames)
    return {
        "apiVersion": names.GATEWAY_API_VERSION,
        "kind": "HTTPRoute",
        "metadata": metadata(owner, owner.name, names.child_labels(owner.name)),
        "spec": spec,
    }


def _parent(owner: Owner, gateway: GatewayRef) -> dict[str, Any]:
    parent = {
        "group": "gateway.networking.k8s.io",
        "kind": "Gateway",
        "name": gateway.name,
        "namespace": gateway.namespace or owner.namespace,
    }
    return parent if gateway.section_name is None else {**parent, "sectionName": gateway.section_name}


def _backend(owner: Owner, revision: str, weight: int) -> dict[str, Any]:
    return {
        "group": "",
        "kind": "Service",
        "name": names.revision_child(owner.name, revision),
        "port": names.PORT,
        "weight": weight,
    }
