"""The oldest supported API server takes the CRD, and reads objects as the newest does: same defaults, same refusals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from apiserver import CRD, SDD, ApiServer, Object, Refused
from builders import IMAGE, DeploymentBuilder
from oldestapi import LINE, oldest_api_server
from test_admission import EXAMPLES, IDLE, REFUSED, REFUSED_EDITS
from waiting import await_that

from specdecode_local.paths import REPOSITORY
from specdecode_operator.api import names
from specdecode_operator.api.crd import crd

NAMESPACE = "default"
STRICT = {"fieldValidation": "Strict"}
DRY = STRICT | {"dryRun": "All"}
LATER = "self.spec.template.labels.all(key, value, key != value)"
"""Two variables in a comprehension came after the oldest line."""


@pytest.fixture(scope="module")
def oldest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with oldest_api_server(tmp_path_factory.mktemp("oldest-api")) as server:
        yield server


@pytest.fixture(scope="module")
def with_crd(oldest: ApiServer) -> ApiServer:
    """The oldest API server once it has taken the CRD and serves its objects."""
    oldest.request("POST", CRD.path(None), params=STRICT, json=crd())
    await_that("it serves SpecDecodeDeployments", lambda: oldest.listing(SDD, NAMESPACE), seconds=30)
    return oldest


def conditions(server: ApiServer) -> dict[str, str]:
    found = server.get(CRD, names.CRD_NAME)
    assert found is not None
    return {each["type"]: each["status"] for each in found["status"]["conditions"]}


def test_it_is_of_the_oldest_supported_line(oldest: ApiServer) -> None:
    version = oldest.request("GET", "/version")
    assert f"{version['emulationMajor']}.{version['emulationMinor']}" == LINE
    assert f"It needs Kubernetes {LINE} or newer." in (REPOSITORY / "README.md").read_text()


def test_the_crd_is_taken_without_a_warning_and_served(oldest: ApiServer, with_crd: ApiServer) -> None:
    answer = oldest.client.post(CRD.path(None), params=DRY, json=renamed(crd()))
    assert (answer.status_code, answer.headers.get("warning")) == (201, None), answer.text
    assert conditions(with_crd) == {"NamesAccepted": "True", "Established": "True"}


def renamed(definition: Object) -> Object:
    """The same under another group, for a second look."""
    metadata = definition["metadata"] | {"name": f"{names.PLURAL}.other.example.com"}
    return definition | {"metadata": metadata, "spec": definition["spec"] | {"group": "other.example.com"}}


def without_bounds(schema: Any) -> Any:
    """The schema with lists, maps and strings of any length."""
    if isinstance(schema, list):
        return [without_bounds(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    bounds = ("maxItems", "maxProperties", "maxLength")
    return {key: without_bounds(value) for key, value in schema.items() if key not in bounds}


def test_it_would_refuse_rules_over_lists_without_a_bound(oldest: ApiServer) -> None:
    with pytest.raises(Refused, match="estimated rule cost exceeds budget"):
        oldest.request("POST", CRD.path(None), params=DRY, json=without_bounds(renamed(crd())))


def test_it_would_refuse_a_rule_in_words_of_a_later_line(oldest: ApiServer, api: ApiServer) -> None:
    definition = renamed(crd())
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["x-kubernetes-validations"] = [{"rule": LATER, "message": "key and value are one"}]
    api.request("POST", CRD.path(None), params=DRY, json=definition)
    with pytest.raises(Refused, match="compilation failed"):
        oldest.request("POST", CRD.path(None), params=DRY, json=definition)


def objects_of(example: Path) -> list[Object]:
    """Its SpecDecodeDeployments, with the image filled in where a person has to."""
    text = example.read_text().replace("image: ENGINE_IMAGE", f"image: {IMAGE}")
    return [found for found in yaml.safe_load_all(text) if found and found["kind"] == names.KIND]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_an_example_is_read_as_the_running_cluster_reads_it(with_crd: ApiServer, api: ApiServer, example: Path) -> None:
    for sent in objects_of(example):
        read = [server.request("POST", SDD.path(NAMESPACE), params=DRY, json=sent) for server in (with_crd, api)]
        assert read[0]["spec"] == read[1]["spec"]
        assert read[0]["spec"] != sent["spec"], "defaults are filled in"


def sent(builder: DeploymentBuilder) -> Object:
    return builder.set("metadata.namespace", NAMESPACE).built()


@pytest.mark.parametrize("mistake", REFUSED)
def test_a_mistake_is_refused_in_the_same_words(with_crd: ApiServer, mistake: str) -> None:
    builder, said = REFUSED[mistake]
    with pytest.raises(Refused) as refused:
        with_crd.request("POST", SDD.path(NAMESPACE), params=DRY, json=sent(builder))
    assert [words for words in said if words not in refused.value.message] == [], refused.value.message


@pytest.fixture(scope="module")
def stored(with_crd: ApiServer) -> Object:
    return with_crd.request("POST", SDD.path(NAMESPACE), params=STRICT, json=sent(IDLE))


@pytest.mark.parametrize("mistake", REFUSED_EDITS)
def test_a_bad_edit_is_refused_in_the_same_words(with_crd: ApiServer, stored: Object, mistake: str) -> None:
    builder, said = REFUSED_EDITS[mistake]
    edited = sent(builder.set("metadata.resourceVersion", stored["metadata"]["resourceVersion"]))
    path = SDD.path(NAMESPACE, stored["metadata"]["name"])
    with pytest.raises(Refused) as refused:
        with_crd.request("PUT", path, params=DRY, json=edited)
    assert [words for words in said if words not in refused.value.message] == [], refused.value.message


def test_a_field_that_the_schema_does_not_have_is_dropped_where_strictness_is_not_asked_for(
    with_crd: ApiServer,
) -> None:
    unknown = sent(IDLE.named("loose").set("spec.engine.optimisations", {"a": 1}))
    read = with_crd.request(
        "POST", SDD.path(NAMESPACE), params={"dryRun": "All", "fieldValidation": "Ignore"}, json=unknown
    )
    assert "optimisations" not in read["spec"]["engine"]
