"""Values that are refused before anything is installed, and what is said."""

from __future__ import annotations

import json

import pytest
import yaml
from chart import CHART, Chart, Json

SHA = "0123456789abcdef" * 4
URL = '"url":"https://b"'

REFUSED = [
    ("a value that nobody reads", "replicaCount=2", "replicaCount"),
    ("a misspelled value", 'image.pullpolicy="Always"', "pullpolicy"),
    ("an image without repository", 'image.repository=""', "image.repository is empty: name the repository"),
    ("a repository with a tag in it", 'image.repository="registry.example.com/operator:1"', "image.repository"),
    ("a repository with a digest in it", f'image.repository="r.example.com/op@sha256:{SHA}"', "image.repository"),
    ("a digest that is too short", 'image.digest="sha256:0123"', "image.digest"),
    ("a digest without algorithm", f'image.digest="{SHA}"', "image.digest"),
    ("digest and tag", 'image.tag="1.0"', "are both set: keep one"),
    ("an unknown pull policy", 'image.pullPolicy="Sometimes"', "image.pullPolicy"),
    ("a pull secret as a plain name", 'imagePullSecrets=["login"]', "imagePullSecrets.0"),
    ("a namespace that can't exist", 'watchNamespaces=["Team_A"]', "watchNamespaces.0"),
    ("a namespace twice", 'watchNamespaces=["a","a"]', "watchNamespaces"),
    ("namespaces as one string", 'watchNamespaces="a,b"', "watchNamespaces"),
    ("an unknown log level", 'logLevel="loud"', "logLevel"),
    ("the node's root as allowed path", 'allowedHostPaths=["/"]', "allowedHostPaths.0"),
    ("a relative allowed path", 'allowedHostPaths=["models"]', "allowedHostPaths.0"),
    ("an allowed path that climbs", 'allowedHostPaths=["/mnt/../etc"]', "allowedHostPaths.0"),
    ("a service account that can't exist", 'allowedServiceAccounts=["A B"]', "allowedServiceAccounts.0"),
    ("a backend without address", 'metricsBackends=[{"name":"a"}]', "url"),
    ("a backend of a name that is none", f'metricsBackends=[{{"name":"A b",{URL}}}]', "metricsBackends.0.name"),
    ("a password in an address", 'metricsBackends=[{"name":"a","url":"https://me:secret@b"}]', "metricsBackends.0.url"),
    ("another scheme", 'metricsBackends=[{"name":"a","url":"ftp://b"}]', "metricsBackends.0.url"),
    ("a token in the values", f'metricsBackends=[{{"name":"a",{URL},"bearer":{{"token":"t"}}}}]', "token"),
    (
        "two credentials",
        f'metricsBackends=[{{"name":"a",{URL},"bearer":{{"secret":"s"}},"basic":{{"secret":"s"}}}}]',
        "metricsBackends.0",
    ),
    ("a CA from two places", f'metricsBackends=[{{"name":"a",{URL},"ca":{{"secret":"s","configMap":"c"}}}}]', "ca"),
    ("a tenant of two lines", f'metricsBackends=[{{"name":"a",{URL},"tenant":"a\\nb"}}]', "tenant"),
    ("two backends of one name", f'metricsBackends=[{{"name":"a",{URL}}},{{"name":"a",{URL}}}]', "two are named a"),
    ("a port that needs root", "health.port=80", "health.port"),
    ("a port as text", 'metrics.port="8081"', "metrics.port"),
    ("one port for two servers", "metrics.port=8080", "health.port and metrics.port are both 8080"),
    ("an unknown monitor", 'metrics.monitor="Probe"', "metrics.monitor"),
    ("an interval without unit", 'metrics.scrapeInterval="30"', "metrics.scrapeInterval"),
    ("a dashboards' label that is none", 'dashboards.label="a b"', "dashboards.label"),
    ("dashboards in a namespace that can't exist", 'dashboards.namespace="A"', "dashboards.namespace"),
    ("a label's value that isn't text", "dashboards.labelValue=1", "dashboards.labelValue"),
    ("rules with a label that isn't text", 'rules.labels={"a":1}', "rules.labels.a"),
    ("a policy peer that selects nothing", "networkPolicy.metricsFrom=[{}]", "networkPolicy.metricsFrom.0"),
    ("no port to the API server", "networkPolicy.apiServerPorts=[]", "networkPolicy.apiServerPorts"),
    ("a quantity that isn't one", 'resources.limits.memory="lots"', "resources.limits.memory"),
    ("a label of the chart's own", 'podLabels={"app.kubernetes.io/name":"x"}', "podLabels"),
]


@pytest.mark.parametrize(("setting", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_bad_values_are_refused_by_name(chart: Chart, setting: str, message: str) -> None:
    said = chart.refusal(setting)
    assert message in said.replace("/", "."), said


def leaves(values: Json, prefix: str = "") -> set[str]:
    """Paths of the values that the defaults list; an empty map is one value."""
    found: set[str] = set()
    for name, value in values.items():
        path = f"{prefix}{name}"
        found |= leaves(value, f"{path}.") if isinstance(value, dict) and value else {path}
    return found


def accepted(schema: Json, prefix: str = "") -> set[str]:
    """Paths of the values that the schema takes."""
    found: set[str] = set()
    for name, child in schema.get("properties", {}).items():
        path = f"{prefix}{name}"
        found |= accepted(child, f"{path}.") if child.get("properties") else {path}
    return found


def test_values_yaml_lists_every_value_that_the_schema_takes() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    free = {"requests", "limits"}
    in_values = {path for path in leaves(defaults) if not path.startswith("resources.")}
    assert in_values == accepted(schema) - {"global"} - {f"resources.{part}" for part in free}


def test_every_part_of_the_schema_refuses_what_it_does_not_list() -> None:
    def open_objects(schema: Json, path: str) -> list[str]:
        here = [path] if "properties" in schema and schema.get("additionalProperties") is not False else []
        children = dict(schema.get("properties", {}))
        if "items" in schema:
            children["[]"] = schema["items"]
        return here + [deep for name, child in children.items() for deep in open_objects(child, f"{path}.{name}")]

    assert open_objects(json.loads((CHART / "values.schema.json").read_text()), "values") == []
