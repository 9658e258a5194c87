"""SpecDecodeDeployments of the cluster tests, as a user would write them, with the stand-in engine."""

from __future__ import annotations

import copy
from collections.abc import Mapping

from apiserver import Object

from specdecode_operator.api import names

ENGINE_VERSION = "0.33.0"
MODEL = "plain"
GATEWAY = {"name": "specdecode", "namespace": "gateway", "sectionName": "http"}
GATEWAY_URL = "http://127.0.0.1:8080"
COMPLETIONS_URL = f"{GATEWAY_URL}/v1/completions"

SMALL = {"requests": {"cpu": "10m", "memory": "48Mi"}, "limits": {"memory": "256Mi"}}
QUICK_PROBES = {
    "startup": {"periodSeconds": 1, "failureThreshold": 120},
    "readiness": {"periodSeconds": 1, "failureThreshold": 3},
}
QUICK_DRAIN = {"preStopSeconds": 1, "shutdownTimeoutSeconds": 2, "terminationGracePeriodSeconds": 8}
LONG_DRAIN = {"preStopSeconds": 3, "shutdownTimeoutSeconds": 60, "terminationGracePeriodSeconds": 75}
"""For streams of half a minute, which have to end by themselves before their pod goes."""

# What the stand-in is told by its environment.
TOKENS_PER_SECOND = "STANDIN_TOKENS_PER_SECOND"
CRASH_MESSAGE = "STANDIN_CRASH_MESSAGE"
BALLAST = "STANDIN_BALLAST_MIB"


def environment(settings: Mapping[str, str]) -> list[Object]:
    return [{"name": name, "value": value} for name, value in settings.items()]


def standin(
    name: str,
    image: str,
    *,
    replicas: int = 2,
    hostname: str | None = None,
    settings: Mapping[str, str] | None = None,
    spec: Object | None = None,
) -> Object:
    """A small object of the cpu profile with the stand-in engine; `spec` is merged over it."""
    obj: Object = {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": name},
        "spec": {
            "model": {"name": MODEL, "source": f"/models/{MODEL}", "servedName": MODEL},
            "speculative": {
                "method": "dspark",
                "draftModel": {"source": "/models/dspark"},
                "numSpeculativeTokens": 3,
            },
            "engine": {"version": ENGINE_VERSION, "image": image, "env": environment(settings or {})},
            "accelerator": {"profile": "cpu", "probes": QUICK_PROBES},
            "replicas": replicas,
            "template": {"resources": SMALL},
            "drain": QUICK_DRAIN,
        },
    }
    if hostname:
        obj["spec"]["traffic"] = {"gateway": GATEWAY, "hostnames": [hostname], "settleSeconds": 1}
    return merged(obj, {"spec": spec or {}})


def merged(base: Object, change: Object) -> Object:
    """RFC 7386: mappings are merged, everything else replaced, None removes."""
    result = copy.deepcopy(base)
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merged(result[key], value)
        else:
            result[key] = copy.deepcopy(value)
    return result


def unknown_digest(image: str) -> str:
    """The same repository, with a digest that nothing was ever pushed under."""
    return f"{image.split('@')[0]}@sha256:{'0' * 64}"


def drafts(count: int) -> Object:
    """A change of the spec that every engine pod has to take up."""
    return {"speculative": {"numSpeculativeTokens": count}}
