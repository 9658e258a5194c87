"""A child that the API server refuses is tried again, less and less often, until something changes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from builders import OTHER_IMAGE, DeploymentBuilder, deployment
from canaries import without_metrics

from specdecode_operator.apply import kinds
from specdecode_operator.apply.client import Api, Invalid, NotFound
from specdecode_operator.apply.events import Recorder
from specdecode_operator.apply.execute import Executor
from specdecode_operator.apply.meters import Meters
from specdecode_operator.apply.reconcile import Reconciler
from specdecode_operator.apply.store import Key, Store

Json = dict[str, Any]
KEY = Key("serving", "demo")


@dataclass
class Refusing(Api):
    """An API server that takes any child but a ReplicaSet."""

    obj: Json
    refuses: bool = True
    made: dict[str, Json] = field(default_factory=dict)

    async def get(self, path: str, query: Any = None) -> Json:
        if path == kinds.SDD.path(KEY.namespace, KEY.name):
            return self.obj
        raise NotFound(404, {"message": "not found"})

    async def named(self, path: str, name: str) -> Json | None:
        return self.made.get(f"{path}/{name}")

    async def apply(self, path: str, manifest: Json, *, manager: str, force: bool = True) -> Json:
        if self.refuses and manifest["kind"] == "ReplicaSet":
            raise Invalid(422, {"message": "must be no more than the limit"})
        version = str(len(self.made) + 1)
        self.made[path] = {**manifest, "metadata": {**manifest["metadata"], "uid": path, "resourceVersion": version}}
        return self.made[path]

    async def put(self, path: str, manifest: Json, *, manager: str) -> Json:
        self.obj = manifest
        return manifest

    async def post(self, path: str, manifest: Json, *, manager: str) -> Json:
        return manifest

    def edit(self, change: Callable[[DeploymentBuilder], DeploymentBuilder]) -> None:
        self.obj = change(DeploymentBuilder(self.obj)).built()


@pytest.fixture
def server() -> Refusing:
    return Refusing(deployment().stored())


@pytest.fixture
def operator(server: Refusing) -> Reconciler:
    meters, store = Meters(), Store(lambda _: None)
    executor, recorder = Executor(server, store, meters), Recorder(server, meters)
    return Reconciler(server, store, executor, recorder, meters, frozenset, lambda _: {}, without_metrics(meters))


async def waits(operator: Reconciler, times: int) -> list[float]:
    """Seconds until it looks again, after each of so many reconciles."""
    after = [await operator.reconcile(KEY) or timedelta() for _ in range(times)]
    return [each.total_seconds() for each in after]


async def test_what_is_refused_again_and_again_is_tried_ever_less_often(operator: Reconciler) -> None:
    await operator.reconcile(KEY)  # makes the other children
    assert await waits(operator, 7) == [15, 30, 60, 120, 240, 300, 300]


async def test_a_change_of_the_object_begins_anew(server: Refusing, operator: Reconciler) -> None:
    await waits(operator, 5)
    server.edit(lambda it: it.image(OTHER_IMAGE))
    assert await waits(operator, 1) == [15]


async def test_what_is_taken_at_last_is_no_longer_counted(server: Refusing, operator: Reconciler) -> None:
    await waits(operator, 5)
    server.refuses = False
    assert await waits(operator, 1) == [600]
    assert operator.refused == {}
