"""The revision of a spec: a hash over what shapes the engine's pod.

The hash must not move when the operator learns something new, or an upgrade would restart every engine. So it is taken
over a canonical form that lists its fields by name. A later version of the form adds fields, each with the value that
means "as before there was this field"; a field that has this value is left out. Then a spec that does not use what is
new hashes as it always did, under any version of the form.

Not in the form, since they shape no pod or may change without a restart: replicas, minAvailable, traffic, metrics, and
the template's labels and annotations.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from specdecode_operator.api import names
from specdecode_operator.api.types import Spec

Tree = Mapping[str, "Tree | None"]
"""Field to what is taken of it: None is the whole value; of a list, the tree applies to each item."""


@dataclass(frozen=True)
class Form:
    """One version of the canonical form."""

    version: int
    fields: Tree
    neutral: Mapping[str, Any] = field(default_factory=dict)
    """Dotted path of each field that is younger than version 1, to the value that stands for its absence."""


def _leaves(*fields: str) -> dict[str, None]:
    return dict.fromkeys(fields)


_TIMING: Final[Tree] = _leaves("periodSeconds", "timeoutSeconds", "failureThreshold")
_TOLERATION: Final[Tree] = _leaves("key", "operator", "value", "effect", "tolerationSeconds")
_KEY_REF: Final[Tree] = _leaves("name", "key", "optional")
_ITEM: Final[Tree] = _leaves("key", "path", "mode")

FORM_1: Final = Form(
    version=1,
    fields={
        "model": _leaves("source", "revision", "servedName"),
        "speculative": {
            **_leaves("method", "numSpeculativeTokens", "attentionBackend"),
            "draftModel": _leaves("source", "revision"),
            "rejection": _leaves("method", "acceptanceLength"),
        },
        "engine": {
            **_leaves("version", "image", "args"),
            "env": {
                **_leaves("name", "value"),
                "valueFrom": {
                    "secretKeyRef": _KEY_REF,
                    "configMapKeyRef": _KEY_REF,
                    "fieldRef": _leaves("fieldPath"),
                },
            },
        },
        "parallelism": _leaves("tensor", "pipeline", "data", "expert"),
        "accelerator": {
            **_leaves("profile", "gpusPerNode", "nodesPerReplica", "nodeLabels", "arch", "runtimeClassName", "shmSize"),
            "tolerations": _TOLERATION,
            "probes": {"startup": _TIMING, "liveness": _TIMING, "readiness": _TIMING},
        },
        "template": {
            "resources": _leaves("requests", "limits"),
            "volumes": {
                "name": None,
                "persistentVolumeClaim": _leaves("claimName", "readOnly"),
                "emptyDir": _leaves("medium", "sizeLimit"),
                "configMap": {**_leaves("name", "defaultMode", "optional"), "items": _ITEM},
                "secret": {**_leaves("secretName", "defaultMode", "optional"), "items": _ITEM},
                "hostPath": _leaves("path", "type"),
            },
            "volumeMounts": _leaves("name", "mountPath", "subPath", "readOnly"),
            "tolerations": _TOLERATION,
            "imagePullSecrets": _leaves("name"),
            **_leaves("nodeSelector", "priorityClassName", "serviceAccountName"),
        },
        "drain": _leaves("preStopSeconds", "shutdownTimeoutSeconds", "terminationGracePeriodSeconds"),
    },
)

_ENGINE_1: Final = FORM_1.fields["engine"] or {}

FORM_2: Final = Form(
    version=2,
    fields={**FORM_1.fields, "engine": {**_ENGINE_1, "build": None, "optimizations": _leaves("disable")}},
    neutral={"engine.build": "patched", "engine.optimizations.disable": []},
)
"""With what the image holds and which optimizations are off. The digest that a pod expects is not in it: it comes from
the operator's catalogue, and a newer catalogue must not restart what serves."""

FORMS: Final[Mapping[int, Form]] = {1: FORM_1, 2: FORM_2}
LATEST_FORM: Final = 2


def revision_of(spec: Spec, form: int = LATEST_FORM) -> str:
    """The revision of `spec`: 10 hexadecimal digits.

    Args:
        spec: the spec, defaults filled in.
        form: version of the canonical form. Give an older one only to compare with a revision that was made under it.
    """
    return digest(canonical(as_hashed(spec), FORMS[form]))


def says_more(spec: Spec, form: int) -> bool:
    """Whether `spec` uses a field that is younger than a version of the form, whose hash is blind to it."""
    plain = as_hashed(spec)
    return canonical(plain, FORMS[form]) != canonical(plain, FORMS[LATEST_FORM])


def as_hashed(spec: Spec) -> dict[str, Any]:
    """`spec` as the canonical form reads it: of the model's two names the one that clients send, and sets in order."""
    plain: dict[str, Any] = spec.model_dump(by_alias=True, exclude_none=True, mode="json")
    engine = {**plain["engine"], "optimizations": {"disable": sorted(set(spec.engine.optimizations.disable))}}
    return {**plain, "model": {**plain["model"], "servedName": spec.model.serves_as}, "engine": engine}


def digest(form: Mapping[str, Any]) -> str:
    """Hash of a canonical form, blind to the order of its keys."""
    text = json.dumps(form, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[: names.REVISION_LENGTH]


def canonical(spec: Mapping[str, Any], form: Form) -> dict[str, Any]:
    """What of `spec` is in `form`: objects with nothing in them left out, quantities as text.

    An empty list or map stays: as an override it means "none of the profile's".
    """
    taken = _take(spec, form.fields, form.neutral, "")
    assert isinstance(taken, dict)
    return taken


def _take(value: Any, tree: Tree | None, neutral: Mapping[str, Any], path: str) -> Any:
    if tree is None:
        return _plain(value)
    if isinstance(value, list):
        return [_take(item, tree, neutral, path) for item in value]
    taken = {}
    for name, below in tree.items():
        at = f"{path}.{name}" if path else name
        if name not in value or (at in neutral and value[name] == neutral[at]):
            continue
        inner = _take(value[name], below, neutral, at)
        if inner != {} or below is None:
            taken[name] = inner
    return taken


def _plain(value: Any) -> Any:
    """Quantities come as numbers or as text and mean the same."""
    if isinstance(value, dict):
        return {key: str(item) for key, item in value.items()}
    return value
