"""The PodDisruptionBudget `<name>`: how many pods a node drain must leave."""

from typing import Any

from specdecode_operator.api import names
from specdecode_operator.build.owner import Owner, metadata


def build(owner: Owner, min_available: int, *, followers: int = 0) -> dict[str, Any]:
    """One budget over the pods of all revisions.

    Args:
        owner: the object.
        min_available: replicas that must keep serving.
        followers: pods of replicas that span nodes, besides the one of each that serves. A replica falls with any of
            its pods, so none of them is to spare.

    A pod that was taken out of its Services isn't counted though it is Ready: it serves nobody, and would let the drain
    of a node take one that does. `AlwaysAllow`: a pod that is not Ready protects nothing, and must not keep a node from
    being drained.
    """
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(owner, owner.name, names.child_labels(owner.name)),
        "spec": {
            "minAvailable": min_available + followers,
            "selector": {
                "matchLabels": {names.LABEL_NAME: owner.name},
                "matchExpressions": [{"key": names.LABEL_SERVES, "operator": "NotIn", "values": ["false"]}],
            },
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }
