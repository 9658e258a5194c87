"""The example for GB200 trays finds on simulated ones what docs/local-cluster.md says that it needs."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from typing import Any

import pytest
import yaml

from specdecode_local import gateway, paths, trays
from specdecode_operator.api.profiles import resolve
from specdecode_operator.api.types import Spec
from specdecode_operator.build import pod

EXAMPLES = paths.REPOSITORY / "examples"
GUIDE = paths.REPOSITORY / "docs" / "local-cluster.md"


@pytest.fixture(scope="module")
def brought() -> list[dict[str, Any]]:
    """What examples/trays/rack.yaml brings."""
    return list(yaml.safe_load_all((EXAMPLES / "trays" / "rack.yaml").read_text()))


@pytest.fixture(scope="module")
def spec() -> dict[str, Any]:
    """The example's, changed as the guide's command changes it."""
    (command,) = re.findall(r"^(sed .+) \| kubectl apply", GUIDE.read_text(), re.MULTILINE)
    changed = subprocess.run(command, shell=True, cwd=paths.REPOSITORY, capture_output=True, text=True, check=True)
    found: dict[str, Any] = yaml.safe_load(changed.stdout)["spec"]
    return found


@pytest.fixture(scope="module")
def pod_spec(spec: dict[str, Any]) -> dict[str, Any]:
    parsed = Spec.model_validate(spec)
    rendered: dict[str, Any] = pod.template(parsed, resolve(parsed.accelerator), None)["spec"]
    return rendered


def of_kind(kind: str, objects: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in objects if each["kind"] == kind}


def test_every_claim_of_its_pods_is_brought_with_a_volume_of_its_own(
    brought: list[dict[str, Any]], pod_spec: dict[str, Any]
) -> None:
    claims, volumes = of_kind("PersistentVolumeClaim", brought), of_kind("PersistentVolume", brought)
    mounted = [each["persistentVolumeClaim"] for each in pod_spec["volumes"] if "persistentVolumeClaim" in each]
    assert {each["claimName"] for each in mounted} == set(claims)
    assert {claim["spec"]["volumeName"] for claim in claims.values()} == set(volumes)
    for claim in claims.values():
        volume = volumes[claim["spec"]["volumeName"]]["spec"]
        assert (claim["spec"]["storageClassName"], claim["spec"]["accessModes"]) == ("", volume["accessModes"])


def test_its_runtime_class_is_brought(brought: list[dict[str, Any]], pod_spec: dict[str, Any]) -> None:
    assert list(of_kind("RuntimeClass", brought)) == [pod_spec["runtimeClassName"]]


def test_a_tray_has_what_its_pods_select_and_ask_for(pod_spec: dict[str, Any]) -> None:
    tray = trays.node(0)
    assert pod_spec["nodeSelector"].items() <= tray["metadata"]["labels"].items()
    (asked,) = (each["resources"] for each in pod_spec["containers"])
    assert asked["limits"]["nvidia.com/gpu"] == tray["status"]["allocatable"]["nvidia.com/gpu"]
    assert float(asked["requests"]["cpu"]) <= float(tray["status"]["allocatable"]["cpu"])


def test_nobody_is_to_attest_and_its_route_goes_to_the_gateway_that_is_here(spec: dict[str, Any]) -> None:
    assert spec["engine"]["build"] == "stock"
    here = {"name": gateway.NAME, "namespace": gateway.NAMESPACE, "sectionName": gateway.LISTENER}
    assert spec["traffic"]["gateway"] == here
