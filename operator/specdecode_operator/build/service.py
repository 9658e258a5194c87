"""Services: `<name>-<revision>` for one revision, whose selector never changes, and `<name>` for all of them."""

from typing import Any

from specdecode_operator.api import names
from specdecode_operator.build.owner import Owner, metadata


def for_revision(owner: Owner, revision: str) -> dict[str, Any]:
    """The Service of one revision: what the route gives a weight to."""
    labels = names.revision_labels(owner.name, revision)
    selector = {names.LABEL_NAME: owner.name, names.LABEL_REVISION: revision, names.LABEL_SERVES: "true"}
    return _service(owner, names.revision_child(owner.name, revision), labels, selector)


def for_all(owner: Owner) -> dict[str, Any]:
    """The Service of the object: every pod that serves, of whatever revision."""
    selector = {names.LABEL_NAME: owner.name, names.LABEL_SERVES: "true"}
    return _service(owner, owner.name, names.child_labels(owner.name), selector)


def _service(owner: Owner, name: str, labels: dict[str, str], selector: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(owner, name, labels),
        "spec": {
            "type": "ClusterIP",
            "sessionAffinity": "None",
            "internalTrafficPolicy": "Cluster",
            "publishNotReadyAddresses": False,
            "selector": selector,
            "ports": [
                {"name": names.PORT_NAME, "port": names.PORT, "targetPort": names.PORT_NAME, "protocol": "TCP"},
            ],
        },
    }
