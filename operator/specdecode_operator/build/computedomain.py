"""The ComputeDomain `<name>-<revision>`: lets the trays of one replica map each other's GPU memory over NVLink."""

from typing import Any

from specdecode_operator.api import names
from specdecode_operator.build.frozen import Frozen
from specdecode_operator.build.owner import Owner, metadata


def build(owner: Owner, frozen: Frozen) -> dict[str, Any]:
    """The revision's domain. Its claim template has the same name; the LeaderWorkerSet's pods claim from it.

    numNodes 0: the driver waits for no set number of nodes, so replicas can come and go.
    """
    name = names.revision_child(owner.name, frozen.revision)
    return {
        "apiVersion": names.COMPUTE_DOMAIN_API_VERSION,
        "kind": "ComputeDomain",
        "metadata": metadata(owner, name, names.revision_labels(owner.name, frozen.revision)),
        "spec": {
            "numNodes": 0,
            "channel": {"resourceClaimTemplate": {"name": name}, "allocationMode": "Single"},
        },
    }
