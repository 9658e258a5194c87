"""Engines are scraped alike everywhere: the PodMonitor of a cluster and the local Prometheus give a series one name."""

from __future__ import annotations

from typing import Any

from specdecode_local.components import prometheus
from specdecode_operator.api import names
from specdecode_operator.api.types import Metrics
from specdecode_operator.build import podmonitor
from specdecode_operator.build.owner import Owner

OWNER = Owner(name="chat", namespace="team", uid="0b0c", api_version=names.API_VERSION, kind=names.KIND)


def monitored() -> dict[str, Any]:
    (endpoint,) = podmonitor.build(OWNER, Metrics())["spec"]["podMetricsEndpoints"]
    return dict(endpoint)


def scraped() -> dict[str, Any]:
    return next(dict(job) for job in prometheus.configuration()["scrape_configs"] if job["job_name"] == "engines")


def test_both_give_a_series_the_same_labels_from_the_same_sources() -> None:
    of_monitor = {(rule["targetLabel"], *rule["sourceLabels"]) for rule in monitored()["relabelings"]}
    of_local = {
        (rule["target_label"], *rule["source_labels"])
        for rule in scraped()["relabel_configs"]
        if rule.get("action", "replace") == "replace"
    }
    assert of_monitor == of_local == set(names.TARGET_LABELS.items())


def test_the_labels_are_those_that_queries_are_written_with() -> None:
    assert set(names.TARGET_LABELS) == {
        "namespace", "pod", "pod_uid", "node", "specdecode_name", "specdecode_revision",
    }  # fmt: skip


def test_no_label_is_taken_from_a_source_that_another_rule_needs() -> None:
    sources = list(names.TARGET_LABELS.values())
    assert len(sources) == len(set(sources))


def test_both_ask_the_same_port_and_path() -> None:
    keeps_port = next(
        rule["regex"]
        for rule in scraped()["relabel_configs"]
        if rule["source_labels"] == ["__meta_kubernetes_pod_container_port_name"]
    )
    assert keeps_port == monitored()["port"] == names.PORT_NAME
    assert scraped()["metrics_path"] == monitored()["path"] == names.METRICS_PATH


def test_both_find_pods_by_the_objects_label() -> None:
    (discovery,) = scraped()["kubernetes_sd_configs"]
    (selector,) = discovery["selectors"]
    assert selector["label"].split(",")[0] == names.LABEL_NAME
    matched = podmonitor.build(OWNER, Metrics())["spec"]["selector"]["matchLabels"]
    assert matched[names.LABEL_NAME] == OWNER.name


def test_the_label_of_a_pod_is_found_under_the_name_that_prometheus_makes_of_it() -> None:
    for target, label in (("specdecode_name", names.LABEL_NAME), ("specdecode_revision", names.LABEL_REVISION)):
        meta = "".join(letter if letter.isalnum() else "_" for letter in label)
        assert names.TARGET_LABELS[target] == f"__meta_kubernetes_pod_label_{meta}"
