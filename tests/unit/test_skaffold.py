"""skaffold.yaml names only what is there, and builds what the local cluster builds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from specdecode_local import image_inputs, images, paths

TEXT = (paths.REPOSITORY / "skaffold.yaml").read_text()
CONFIG: dict[str, Any] = yaml.safe_load(TEXT)
CHART: dict[str, Any] = yaml.safe_load((paths.REPOSITORY / "charts/specdecode-operator/values.yaml").read_text())


def patches(profile: dict[str, Any], path: str) -> list[Any]:
    return [patch["value"] for patch in profile.get("patches", []) if patch["path"] == path]


def artifacts() -> list[dict[str, Any]]:
    added = [item for profile in CONFIG["profiles"] for item in patches(profile, "/build/artifacts/-")]
    return [*CONFIG["build"]["artifacts"], *added]


@pytest.mark.parametrize("artifact", artifacts(), ids=lambda artifact: artifact["image"])
def test_every_artifact_is_an_image_of_the_local_cluster_with_the_same_arguments(artifact: dict[str, Any]) -> None:
    recipe = images.RECIPES[artifact["image"].removeprefix("specdecode-")]
    assert paths.REPOSITORY / artifact["context"] / artifact["docker"]["dockerfile"] == recipe.containerfile
    given = dict(artifact["docker"]["buildArgs"])
    own = {needed["alias"]: needed["image"] for needed in artifact.get("requires", [])}
    assert given.pop("BASE", None) or own == {"BASE": f"specdecode-{recipe.base}"}
    assert given == dict(recipe.arguments)
    taken = image_inputs.sources(recipe.containerfile.read_text(), recipe.arguments)
    assert not taken.made, "what is made outside a container is not there for docker"


def test_an_image_that_another_is_built_on_is_built_too() -> None:
    built = {artifact["image"] for artifact in artifacts()}
    assert {needed["image"] for artifact in artifacts() for needed in artifact.get("requires", [])} <= built


def test_the_default_base_of_an_image_is_the_one_that_is_given() -> None:
    """So that a plain `docker build` and skaffold build the same."""
    for artifact in artifacts():
        if artifact.get("requires"):
            continue
        text = (Path(paths.REPOSITORY) / artifact["docker"]["dockerfile"]).read_text()
        assert re.search(r"(?m)^ARG BASE=(.*)$", text), artifact["image"]
        assert re.search(r"(?m)^ARG BASE=(.*)$", text)[1] == artifact["docker"]["buildArgs"]["BASE"]  # type: ignore[index]


def test_the_release_is_the_chart_and_sets_only_values_it_has() -> None:
    (release,) = CONFIG["deploy"]["helm"]["releases"]
    assert (paths.REPOSITORY / release["chartPath"] / "Chart.yaml").is_file()
    settings = [release["setValueTemplates"]]
    for profile in CONFIG["profiles"]:
        settings += patches(profile, "/deploy/helm/releases/0/setValueTemplates")
    for values in settings:
        for name in values:
            group, _, field = name.partition(".")
            assert field in CHART[group], name
        # The chart refuses both: a tag would say nothing beside a digest.
        assert ("image.tag" in values) != ("image.digest" in values)


def test_templates_name_artifacts_that_are_built() -> None:
    known = {artifact["image"].replace("-", "_") for artifact in CONFIG["build"]["artifacts"]}
    used = set(
        re.findall(r"\{\{\.IMAGE_(?:REPO|TAG|DIGEST)_(\w+)\}\}", (paths.REPOSITORY / "skaffold.yaml").read_text())
    )
    assert used == known


def test_there_is_a_profile_for_a_local_cluster_and_one_for_a_registry() -> None:
    pushes = {
        profile["name"]: profile["build"]["local"]["push"] for profile in CONFIG["profiles"] if "build" in profile
    }
    assert pushes == {"local": False, "registry": True}
