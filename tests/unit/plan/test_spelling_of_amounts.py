"""The same amount, spelled otherwise, is the same revision: nothing restarts for it, and no name moves."""

from typing import Any

import pytest
from builders import OTHER_IMAGE, DeploymentBuilder, deployment
from fleet import Fleet

from specdecode_operator.build.revision import revision_of

START = {"requests": {"cpu": "10m", "memory": "1Gi"}, "limits": {"memory": 2**31}}


def asking(resources: dict[str, Any]) -> DeploymentBuilder:
    return deployment().replicas(2).behind("edge").set("spec.template.resources", resources)


@pytest.fixture
def serving() -> Fleet:
    """Two slots at rest."""
    fleet = Fleet.of(asking(START))
    fleet.settle()
    return fleet


SAME = {
    "a fraction": {"requests": {"cpu": "0.01", "memory": "1Gi"}, "limits": {"memory": 2**31}},
    "another unit": {"requests": {"cpu": "10m", "memory": "1024Mi"}, "limits": {"memory": "2Gi"}},
    "an exponent": {"requests": {"cpu": "0.010", "memory": 2**30}, "limits": {"memory": "2147483648e0"}},
}
OTHER = {
    "another amount": {"requests": {"cpu": "11m", "memory": "1Gi"}, "limits": {"memory": 2**31}},
    "a decimal unit": {"requests": {"cpu": "10m", "memory": "1G"}, "limits": {"memory": 2**31}},
    "one left out": {"requests": {"memory": "1Gi"}, "limits": {"memory": 2**31}},
    "moved to the limits": {"requests": {"memory": "1Gi"}, "limits": {"cpu": "10m", "memory": 2**31}},
}


@pytest.mark.parametrize("resources", SAME.values(), ids=SAME)
def test_the_same_amount_in_another_spelling_restarts_nothing(serving: Fleet, resources: dict[str, Any]) -> None:
    before, pods = serving.replicas(), set(serving.pods)
    serving.edit(lambda it: it.set("spec.template.resources", resources))
    assert serving.planned().actions == ()
    serving.settle()
    assert (serving.replicas(), set(serving.pods)) == (before, pods)
    assert serving.obj["status"]["stable"]["revision"] == revision_of(asking(START).spec())


@pytest.mark.parametrize("resources", OTHER.values(), ids=OTHER)
def test_another_amount_is_another_revision(serving: Fleet, resources: dict[str, Any]) -> None:
    serving.edit(lambda it: it.set("spec.template.resources", resources))
    serving.settle()
    assert list(serving.replicas()) == [revision_of(asking(resources).spec())]
    assert serving.obj["status"]["stable"]["revision"] != revision_of(asking(START).spec())


def test_a_revision_is_found_from_either_spelling(serving: Fleet) -> None:
    fraction = SAME["a fraction"]
    serving.edit(lambda it: it.image(OTHER_IMAGE).set("spec.template.resources", fraction))
    serving.settle()
    written = serving.obj["status"]["stable"]["revision"]
    serving.edit(lambda it: it.set("spec.template.resources", START))
    serving.settle()
    assert serving.obj["status"]["stable"]["revision"] == written
    assert written == revision_of(asking(fraction).image(OTHER_IMAGE).spec())
