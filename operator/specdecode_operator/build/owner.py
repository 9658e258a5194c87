"""Who owns a child, and the metadata that says so."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specdecode_operator.api import names
from specdecode_operator.api.types import SpecDecodeDeployment


@dataclass(frozen=True)
class Owner:
    """The object that a child belongs to."""

    name: str
    namespace: str
    uid: str
    api_version: str = names.API_VERSION
    kind: str = names.KIND


def owner_of(deployment: SpecDecodeDeployment) -> Owner:
    """The owner that `deployment` is to its children."""
    return Owner(name=deployment.name, namespace=deployment.namespace, uid=deployment.uid)


def metadata(owner: Owner, name: str, labels: Mapping[str, str]) -> dict[str, Any]:
    """Metadata of a child: garbage collection removes it with its owner, so the owner needs no finalizer."""
    return {
        "name": name,
        "namespace": owner.namespace,
        "labels": dict(labels),
        "ownerReferences": [
            {
                "apiVersion": owner.api_version,
                "kind": owner.kind,
                "name": owner.name,
                "uid": owner.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
