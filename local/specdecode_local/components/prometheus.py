"""Prometheus with Kubernetes discovery: what the chart's monitors mean, written as scrape rules.

Target labels are the operator's own table, as in its PodMonitors; whatever tells one arm of a rollout from another is
derived from the revision.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from specdecode_local import addresses, certs, paths, probe
from specdecode_local.process import Component
from specdecode_operator.api.names import TARGET_LABELS

SCRAPE_INTERVAL = "5s"
RETENTION = "6h"
RULES = paths.REPOSITORY / "charts/specdecode-operator/rules/specdecode.yaml"
"""What the chart has for a PrometheusRule."""

Rule = dict[str, Any]

URL = f"http://{addresses.NODE}:{addresses.PROMETHEUS_PORT}"


def _keep(label: str, regex: str) -> Rule:
    return {"source_labels": [label], "regex": regex, "action": "keep"}


def _drop(label: str, regex: str) -> Rule:
    return {"source_labels": [label], "regex": regex, "action": "drop"}


def _target_labels() -> list[Rule]:
    return [{"source_labels": [source], "target_label": label} for label, source in TARGET_LABELS.items()]


def job(name: str, *, selector: str, port: str, path: str = "/metrics", honor_labels: bool = False) -> dict[str, Any]:
    """Every pod with that label selector, at its container port of that name.

    With `honor_labels` a label that the pod gives a series itself wins over the target's.
    """
    return {
        "job_name": name,
        "metrics_path": path,
        "honor_labels": honor_labels,
        "kubernetes_sd_configs": [
            {
                "role": "pod",
                "kubeconfig_file": str(certs.kubeconfig("prometheus")),
                "selectors": [{"role": "pod", "label": selector}],
            }
        ],
        "relabel_configs": [
            _keep("__meta_kubernetes_pod_container_port_name", port),
            _drop("__meta_kubernetes_pod_phase", "Succeeded|Failed"),
            *_target_labels(),
        ],
    }


def configuration() -> dict[str, Any]:
    return {
        "global": {"scrape_interval": SCRAPE_INTERVAL, "scrape_timeout": "4s", "evaluation_interval": SCRAPE_INTERVAL},
        "rule_files": [str(_rules())],
        "scrape_configs": [
            job("engines", selector="specdecode.io/name", port="http"),
            job("operator", selector="app.kubernetes.io/name=specdecode-operator", port="metrics", honor_labels=True),
            job(
                "envoy",
                selector="app.kubernetes.io/managed-by=envoy-gateway,app.kubernetes.io/component=proxy",
                port="metrics",
                path="/stats/prometheus",
            ),
        ],
    }


def _rules() -> Path:
    """Where the running Prometheus reads its rules: a copy, so that a change of them starts it anew."""
    return paths.CONFIGURATION / "rules.yaml"


def component() -> Component:
    file = paths.CONFIGURATION / "prometheus.yaml"
    return Component(
        name="prometheus",
        argv=(
            str(paths.binary("prometheus")),
            f"--config.file={file}",
            f"--storage.tsdb.path={paths.STATE / 'prometheus'}",
            f"--storage.tsdb.retention.time={RETENTION}",
            f"--web.listen-address={addresses.NODE}:{addresses.PROMETHEUS_PORT}",
            "--log.level=warn",
        ),
        configuration={file: yaml.safe_dump(configuration(), sort_keys=False), _rules(): RULES.read_text()},
        files=(certs.kubeconfig("prometheus"),),
        ready=lambda: probe.http(f"{URL}/-/ready"),
    )
