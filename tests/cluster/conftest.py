"""What the cluster tests share: the real control plane, the operator installed once, a namespace for each test."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from apiserver import ApiServer
from commands import Command
from namespaces import MakeNamespace, namespaces, remove_leftovers
from operatorpod import InstalledOperator
from turns import TOGETHER, Turns, once_in_a_run
from workspace import Workspace

from specdecode_local import images, paths

LONG = "SPECDECODE_LONG_TESTS"
"""Set to 1 for the long forms: 10 minutes at rest instead of 1, 20 kills by chance instead of 5, streams across three
drains instead of two.
"""

TURNS = pytest.StashKey[Turns]()


def is_long_form() -> bool:
    return os.environ.get(LONG) == "1"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the cluster tests, keep those together that share something, and put them into the order of `place`.

    A test with a namespace of its own shares nothing with the others of its module, so any process may run it. Those
    that go quite alone go one after the other anyway: one process has them all, the others needn't wait for a turn.
    """
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.cluster)
            if goes_alone(item):
                item.add_marker(pytest.mark.xdist_group("alone"))
            elif "namespace" not in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.xdist_group(item.path.stem))
    items.sort(key=place)


def place(item: pytest.Item) -> int:
    """Minutes first, so that nothing is left to wait for when the quick ones are through; then those that go alone,
    after those that do so in company, which are to have it. Last what goes beside any, minutes first: it makes use of
    the processors while somebody is alone.
    """
    minutes = item.get_closest_marker("minutes") is not None
    if item.get_closest_marker("cluster") is None or item.get_closest_marker("apart"):
        return 4 if minutes else 5
    if alone := item.get_closest_marker("alone"):
        return 2 if alone.args else 3
    return 0 if minutes else 1


def goes_alone(item: pytest.Item) -> bool:
    """Whether it goes quite alone."""
    alone = item.get_closest_marker("alone")
    return alone is not None and not alone.args


def group(item: pytest.Item) -> str | None:
    """The name of those that a test goes with: its own if it goes quite alone, none if it goes with any.

    In the long form every process of the cluster is killed, which no pod lives through.
    """
    if item.get_closest_marker("apart") and not is_long_form():
        return None
    alone = item.get_closest_marker("alone")
    return str(alone.args[0] if alone.args else item.nodeid) if alone else TOGETHER


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Every cluster test has its turn, set-up and teardown included: they act on the cluster too."""
    if item.get_closest_marker("cluster") is None:
        return (yield)
    turns = item.config.stash.get(TURNS, None)
    if turns is None:
        turns = item.config.stash[TURNS] = Turns(paths.cache())
        item.config.add_cleanup(turns.end)
    with turns.turn(group(item), alone=goes_alone(item)):
        return (yield)


@pytest.fixture(scope="session")
def api() -> ApiServer:
    if not paths.KUBECONFIG.exists():
        pytest.fail(f"no cluster: {paths.KUBECONFIG} is not there; run `make up`", pytrace=False)
    server = ApiServer(paths.KUBECONFIG)
    with once_in_a_run(paths.cache() / "cluster-tests-leftovers") as first:
        if first:
            remove_leftovers(server)
    return server


@pytest.fixture(scope="session")
def kubectl() -> Command:
    return Command(paths.binary("kubectl"))


@pytest.fixture(scope="session")
def helm() -> Command:
    return Command(paths.binary("helm"))


@pytest.fixture(scope="session")
def long_form() -> bool:
    return is_long_form()


@pytest.fixture(scope="session")
def operator(api: ApiServer, helm: Command, kubectl: Command) -> InstalledOperator:
    """The operator, installed by its chart as in production, once for all tests of a run."""
    image = images.build("operator")
    installed = InstalledOperator(api=api, helm=helm, image=image)
    with once_in_a_run(paths.cache() / "cluster-tests-operator") as first:
        if first:
            installed.install(image)
            # kubectl keeps for ten minutes which short names there are, `sdd` among them only from now on
            kubectl("api-resources")
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
