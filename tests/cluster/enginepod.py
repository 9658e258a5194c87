"""What an engine's pod answers itself, asked by no Service and no gateway."""

from __future__ import annotations

import httpx
from apiserver import Object
from prometheus_client.parser import text_string_to_metric_families

from specdecode_operator.api import names


def answered(pod: Object, path: str) -> httpx.Response:
    url = f"http://{pod['status']['podIP']}:{names.PORT}{path}"
    return httpx.get(url, timeout=30, trust_env=False)


def attestation(pod: Object) -> Object:
    return dict(answered(pod, names.ATTESTATION_PATH).json())


def counters(pod: Object) -> dict[str, float]:
    """Each of its metrics, summed over the labels."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(answered(pod, names.METRICS_PATH).text):
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found
