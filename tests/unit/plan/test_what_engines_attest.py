"""The engine's own attestation, as the operator reads it: two programs that share no code have to agree."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from builders import IMAGE, deployment
from fleet import Fleet

from specdecode_engine import attestation, manifests
from specdecode_operator.api import names
from specdecode_operator.plan.testimony import read


def whole(manifest: manifests.Manifest) -> dict[str, str | None]:
    """The hash of each file with the whole series applied."""
    return {path: of[frozenset(manifest.touching(path))] for path, of in manifest.hashes.items()}


def answers(line: str, environment: Mapping[str, str], edited: str = "") -> bytes:
    """What an engine of that line answers, one file edited or none."""
    manifest = manifests.load(line)
    found = {**whole(manifest), **({edited: "0" * 64} if edited else {})}
    return json.dumps(attestation.conclude(manifest, found, environment).document()).encode()


def environment_of(fleet: Fleet) -> dict[str, str]:
    (pod, *_) = fleet.pods.values()
    return {each["name"]: each["value"] for each in pod["spec"]["containers"][0]["env"] if "value" in each}


def fleet_of(line: str, *off: str) -> Fleet:
    """A fleet whose pod runs and hasn't been heard yet."""
    fleet = Fleet.of(deployment().set("spec.engine.version", line).switched_off(*off))
    fleet.unreachable.add(IMAGE)
    fleet.settle()
    fleet.unreachable.clear()
    return fleet


@pytest.mark.parametrize("line", manifests.lines(manifests.series_folder()))
@pytest.mark.parametrize("off", [(), ("splitkv-decode",), ("telemetry", "uniform-mamba-metadata")])
def test_an_engine_that_is_told_what_the_operator_tells_attests_what_the_operator_expects(
    line: str, off: tuple[str, ...]
) -> None:
    fleet = fleet_of(line, *off)
    fleet.lies[IMAGE] = read(200, answers(line, environment_of(fleet)))
    fleet.settle()
    assert fleet.condition(names.CONDITION_ATTESTED)["status"] == "True", fleet.condition(names.CONDITION_ATTESTED)


def test_an_engine_that_was_not_told_of_the_switch_is_found_out() -> None:
    fleet = fleet_of("0.33.0", "splitkv-decode")
    fleet.lies[IMAGE] = read(200, answers("0.33.0", {}))
    fleet.reconcile()
    said = fleet.condition(names.CONDITION_ATTESTED)
    assert said["status"] == "False"
    assert "splitkv-decode is active, not disabled" in said["message"]


def test_a_file_that_was_edited_is_named_in_the_condition() -> None:
    fleet = fleet_of("0.33.0")
    path = next(iter(manifests.load("0.33.0").targets))
    fleet.lies[IMAGE] = read(200, answers("0.33.0", environment_of(fleet), edited=path))
    fleet.reconcile()
    assert Path(path).name in fleet.condition(names.CONDITION_ATTESTED)["message"]
