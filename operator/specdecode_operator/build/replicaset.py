"""The ReplicaSet `<name>-<revision>`: the one-node replicas of one revision.

Not a Deployment, which would replace running pods with a surge of its own when its template changes.
"""

import copy
from typing import Any

from specdecode_operator.api import names
from specdecode_operator.build.frozen import Frozen
from specdecode_operator.build.owner import Owner, metadata


def build(owner: Owner, frozen: Frozen, replicas: int) -> dict[str, Any]:
    """The revision's ReplicaSet with `replicas` slots."""
    labels = names.revision_labels(owner.name, frozen.revision)
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": metadata(owner, names.revision_child(owner.name, frozen.revision), labels),
        "spec": {
            "replicas": replicas,
            "selector": {
                "matchLabels": {names.LABEL_NAME: owner.name, names.LABEL_REVISION: frozen.revision},
            },
            "template": copy.deepcopy(dict(frozen.template)),
        },
    }
