"""The PodMonitor `<name>`: scrape every pod, and name its series by pod, node and revision."""

from typing import Any

from specdecode_operator.api import names
from specdecode_operator.api.types import Metrics
from specdecode_operator.build.owner import Owner, metadata


def build(owner: Owner, metrics: Metrics) -> dict[str, Any]:
    """The monitor; its relabelings are `names.TARGET_LABELS`, as every query expects."""
    return {
        "apiVersion": names.MONITORING_API_VERSION,
        "kind": "PodMonitor",
        "metadata": metadata(owner, owner.name, names.child_labels(owner.name)),
        "spec": {
            "selector": {"matchLabels": {names.LABEL_NAME: owner.name, names.LABEL_SERVES: "true"}},
            "podMetricsEndpoints": [
                {
                    "port": names.PORT_NAME,
                    "path": names.METRICS_PATH,
                    "interval": metrics.scrape_interval,
                    "relabelings": [
                        {"action": "replace", "sourceLabels": [source], "targetLabel": target}
                        for target, source in names.TARGET_LABELS.items()
                    ],
                }
            ],
        },
    }
