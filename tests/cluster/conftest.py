"""What the cluster tests share: the real control plane, the operator installed once, a namespace for each test."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from apiserver import ApiServer
from commands import Command
from namespaces import MakeNamespace, namespaces
from operatorpod import InstalledOperator
from workspace import Workspace

from specdecode_local import images, paths

LONG = "SPECDECODE_LONG_TESTS"
"""Set to 1 for the long forms: 10 minutes at rest instead of 1, 20 kills by chance instead of 5."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.cluster)


@pytest.fixture(scope="session", autouse=True)
def alone_on_the_cluster() -> Iterator[None]:
    """Two runs at once would stop, kill and upgrade each other's operator: the second waits for the first to end."""
    with (paths.cache() / "cluster-tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def api() -> ApiServer:
    if not paths.KUBECONFIG.exists():
        pytest.fail(f"no cluster: {paths.KUBECONFIG} is not there; run `make up`", pytrace=False)
    return ApiServer(paths.KUBECONFIG)


@pytest.fixture(scope="session")
def kubectl() -> Command:
    return Command(paths.binary("kubectl"))


@pytest.fixture(scope="session")
def helm() -> Command:
    return Command(paths.binary("helm"))


@pytest.fixture(scope="session")
def long_form() -> bool:
    return os.environ.get(LONG) == "1"


@pytest.fixture(scope="session")
def operator(api: ApiServer, helm: Command) -> InstalledOperator:
    """The operator, installed by its chart as in production, once for all tests."""
    installed = InstalledOperator(api=api, helm=helm)
    installed.install(images.build("operator"))
    return installed


@pytest.fixture(scope="session")
def standin_image() -> str:
    """The stand-in engine by digest: fault, rest and scale tests do not need a model."""
    return images.build("engine-standin")


@pytest.fixture
def namespace(request: pytest.FixtureRequest, api: ApiServer) -> Iterator[str]:
    """A namespace of the test's own, named after it."""
    with namespaces(api) as make:
        yield make(request.node.name.removeprefix("test_"))


@pytest.fixture(scope="module")
def make_namespace(api: ApiServer) -> Iterator[MakeNamespace]:
    """For tests that start many objects at once, each in a namespace of its own."""
    with namespaces(api) as make:
        yield make


@pytest.fixture
def workspace(api: ApiServer, namespace: str, operator: InstalledOperator) -> Workspace:
    """The test's namespace, served by the installed operator."""
    return Workspace(api=api, name=namespace, operator_log=operator.last_lines)
