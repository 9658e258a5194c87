"""The kinds of others that replicas over several nodes need, installed for a test and gone after it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import yaml
from apiserver import CRD, ApiServer, Kind, Object
from waiting import await_that

from specdecode_local import gobuild
from specdecode_local.progress import Progress

LEADER_WORKER_SET = Kind("/apis/leaderworkerset.x-k8s.io/v1", "leaderworkersets")
COMPUTE_DOMAIN = Kind("/apis/resource.nvidia.com/v1beta1", "computedomains")

GROUP = "leaderworkerset"
HERE = Path(__file__).parent


def definitions() -> list[Object]:
    """The CustomResourceDefinitions of both."""
    gobuild.build_all(Progress(sys.stderr), [GROUP])
    files = [*gobuild.folder(GROUP, "crds").glob("*leaderworkersets.yaml"), *(HERE / "crds").glob("*.yaml")]
    return [yaml.load(file.read_text(), yaml.CSafeLoader) for file in files]


@contextmanager
def created(api: ApiServer, kind: Kind, *objects: Object) -> Iterator[None]:
    """Objects of the whole cluster, for the length of the block."""
    with ExitStack() as undo:
        for obj in objects:
            api.request("POST", kind.path(None), params={"fieldValidation": "Strict"}, json=obj)
            undo.callback(api.delete, kind, obj["metadata"]["name"])
        yield


@contextmanager
def installed(api: ApiServer, *parts: Object) -> Iterator[None]:
    """CustomResourceDefinitions for the length of the block; their objects go with them."""
    with created(api, CRD, *parts):
        for part in parts:
            await_that(f"{part['metadata']['name']} is served", lambda part=part: established(api, part), seconds=30)
        yield
    for part in parts:
        await_that(f"{part['metadata']['name']} is gone", lambda part=part: not api.get(CRD, part["metadata"]["name"]))


def established(api: ApiServer, definition: Object) -> bool:
    found = api.get(CRD, definition["metadata"]["name"]) or {}
    return any(
        each["type"] == "Established" and each["status"] == "True"
        for each in found.get("status", {}).get("conditions") or ()
    )
