"""Namespaces that a test makes for itself and that go with it."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from apiserver import NAMESPACE, POD, ApiServer
from waiting import await_that

MakeNamespace = Callable[[str], str]

PREFIX = "t-"
"""What every test's namespace begins with, and no other."""


@contextmanager
def namespaces(api: ApiServer) -> Iterator[MakeNamespace]:
    """Make namespaces, all removed when the block ends (without waiting: each has a name of its own)."""
    made: list[str] = []

    def make(title: str) -> str:
        slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:40].strip("-")
        name = f"{PREFIX}{slug}-{secrets.token_hex(2)}"
        api.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        made.append(name)
        return name

    try:
        yield make
    finally:
        for name in made:
            remove(api, name)


def remove(api: ApiServer, name: str) -> None:
    """Remove a namespace; its pods are not given time to drain."""
    for pod in api.list(POD, name):
        api.delete(POD, pod["metadata"]["name"], name, seconds=0)
    api.delete(NAMESPACE, name)


def remove_leftovers(api: ApiServer) -> None:
    """Remove the namespaces of a run that was killed, and wait until they are gone: their pods take room and time."""

    def gone() -> bool:
        left = [found["metadata"]["name"] for found in api.list(NAMESPACE)]
        ours = [name for name in left if name.startswith(PREFIX)]
        for name in ours:
            remove(api, name)
        return not ours

    await_that("no namespace of an earlier run is left", gone, seconds=180)
