"""Whatever admission takes, the builders render: complete, clean, and the same each time."""

from collections.abc import Iterator
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from specs import specs

from specdecode_operator.api import names
from specdecode_operator.api.catalogue import CATALOGUE
from specdecode_operator.api.profiles import resolve
from specdecode_operator.api.types import Spec, SpecDecodeDeployment
from specdecode_operator.build import (
    computedomain,
    controllerrevision,
    httproute,
    leaderworkerset,
    pdb,
    podmonitor,
    replicaset,
    service,
)
from specdecode_operator.build.owner import owner_of
from specdecode_operator.build.revision import revision_of

examples = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""A spec has a hundred fields, so one takes a while to draw; a loaded machine is no failure."""


def object_of(spec: dict[str, Any]) -> SpecDecodeDeployment:
    metadata = {"name": "demo", "namespace": "serving", "uid": "u", "generation": 1}
    return SpecDecodeDeployment.parse({"metadata": metadata, "spec": spec})


def children(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """Every manifest that the object could come to."""
    seen = object_of(spec)
    owner, profile, revision = owner_of(seen), resolve(seen.spec.accelerator), revision_of(seen.spec)
    kept_as = controllerrevision.build(
        owner, seen.spec, profile, revision, 1, series=CATALOGUE.carried_by(seen.spec.engine)
    )
    frozen = controllerrevision.frozen(kept_as)
    replicas = seen.spec.replicas
    pods = (
        [leaderworkerset.build(owner, frozen, replicas), computedomain.build(owner, frozen)]
        if frozen.nodes_per_replica > 1
        else [replicaset.build(owner, frozen, replicas)]
    )
    traffic = seen.spec.traffic
    routes = [] if traffic is None else [httproute.build(owner, traffic, {revision: 1})]
    return [
        kept_as,
        *pods,
        service.for_all(owner),
        service.for_revision(owner, revision),
        pdb.build(owner, seen.spec.min_available_or_default),
        podmonitor.build(owner, seen.spec.metrics),
        *routes,
    ]


def values(node: Any) -> Iterator[Any]:
    yield node
    below = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    for item in below:
        yield from values(item)


def pod_templates(manifests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    data = manifests[0]["data"]
    return [data["template"], *([data["workerTemplate"]] if "workerTemplate" in data else [])]


@examples
@given(specs())
def test_manifests_hold_only_what_json_holds_and_no_null(spec: dict[str, Any]) -> None:
    """A null in an apply takes the field away from its owner; a model or a tuple would not be serialised."""
    for manifest in children(spec):
        for value in values(manifest):
            assert type(value) in (dict, list, str, int, float, bool), f"{manifest['kind']}: {value!r}"


KEYS = {
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "ports": "name",
    "imagePullSecrets": "name",
    "resourceClaims": "name",
    "hostnames": None,
}


@examples
@given(specs())
def test_lists_that_are_merged_by_key_have_each_key_once(spec: dict[str, Any]) -> None:
    """Server-side apply refuses a manifest with the same key twice."""
    for manifest in children(spec):
        for node in values(manifest):
            for name, key in KEYS.items():
                items = node.get(name, []) if isinstance(node, dict) else []
                seen = [item if key is None else item[key] for item in items if isinstance(items, list)]
                assert len(seen) == len(set(map(str, seen))), f"{manifest['kind']}: {name} {seen}"


@examples
@given(specs())
def test_every_mount_has_its_volume(spec: dict[str, Any]) -> None:
    for template in pod_templates(children(spec)):
        volumes = {volume["name"] for volume in template["spec"]["volumes"]}
        mounts = {mount["name"] for mount in template["spec"]["containers"][0]["volumeMounts"]}
        assert mounts <= volumes


@examples
@given(specs())
def test_pods_carry_what_every_selector_asks_for(spec: dict[str, Any]) -> None:
    manifests = children(spec)
    labels = pod_templates(manifests)[0]["metadata"]["labels"]
    for manifest in manifests:
        selector = manifest.get("spec", {}).get("selector", {})
        asked = selector.get("matchLabels", selector) if isinstance(selector, dict) else {}
        assert asked.items() <= labels.items(), manifest["kind"]


@examples
@given(specs())
def test_names_and_labels_fit_kubernetes(spec: dict[str, Any]) -> None:
    for manifest in children({**spec}):
        assert len(manifest["metadata"]["name"]) <= 63 - len("-xxxxx")
        assert all(len(value) <= 63 for value in manifest["metadata"]["labels"].values())
        assert manifest["metadata"]["labels"][names.LABEL_MANAGED_BY] == names.MANAGED_BY


@examples
@given(specs())
def test_rendering_twice_gives_the_same(spec: dict[str, Any]) -> None:
    assert children(spec) == children(spec)


def shuffled(node: Any, random: Any) -> Any:
    """The same JSON value with the keys of every mapping in another order."""
    if isinstance(node, dict):
        items = list(node.items())
        random.shuffle(items)
        return {key: shuffled(value, random) for key, value in items}
    return [shuffled(item, random) for item in node] if isinstance(node, list) else node


@examples
@given(specs(), st.randoms(use_true_random=False))
def test_a_revision_does_not_depend_on_the_order_of_keys(spec: dict[str, Any], random: Any) -> None:
    assert revision_of(object_of(shuffled(spec, random)).spec) == revision_of(object_of(spec).spec)


@examples
@given(specs())
def test_a_spec_survives_the_way_through_the_api_server(spec: dict[str, Any]) -> None:
    """What is stored is the spec with its defaults; reading that back is reading the original."""
    read = Spec.model_validate(spec)
    stored = read.model_dump(by_alias=True, exclude_none=True, mode="json")
    assert Spec.model_validate(stored) == read
    assert revision_of(Spec.model_validate(stored)) == revision_of(read)
