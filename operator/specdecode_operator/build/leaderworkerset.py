"""The LeaderWorkerSet `<name>-<revision>`: the replicas of one revision when each spans several nodes."""

import copy
from collections.abc import Mapping
from typing import Any

from specdecode_operator.api import names
from specdecode_operator.build.frozen import Frozen
from specdecode_operator.build.owner import Owner, metadata


def build(owner: Owner, frozen: Frozen, replicas: int) -> dict[str, Any]:
    """The revision's set with `replicas` groups.

    The templates never change, and the partition equals the replicas: should one ever change all the same, the set
    replaces no running group.

    Each group has a headless Service of its own: the one that all groups would share has the set's name, which is that
    of the revision's Service, and followers would look for their leader behind an address that has no pods' names.
    """
    if frozen.worker_template is None:
        raise ValueError(f"revision {frozen.revision} was frozen for one node a replica: it has no worker template")
    return {
        "apiVersion": names.LWS_API_VERSION,
        "kind": "LeaderWorkerSet",
        "metadata": metadata(
            owner,
            names.revision_child(owner.name, frozen.revision),
            names.revision_labels(owner.name, frozen.revision),
        ),
        "spec": {
            "replicas": replicas,
            "startupPolicy": "LeaderCreated",
            "networkConfig": {"subdomainPolicy": "UniquePerReplica"},
            "rolloutStrategy": {
                "type": "RollingUpdate",
                "rollingUpdateConfiguration": {"partition": replicas, "maxUnavailable": 1, "maxSurge": 0},
            },
            "leaderWorkerTemplate": {
                "size": frozen.nodes_per_replica,
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": _copy(frozen.template),
                "workerTemplate": _copy(frozen.worker_template),
            },
        },
    }


def _copy(template: Mapping[str, Any]) -> dict[str, Any]:
    return copy.deepcopy(dict(template))
