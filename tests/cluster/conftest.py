"""What the cluster tests share: the real control plane, the operator installed once, a namespace for each test."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from apiserver import NAMESPACE, POD, ApiServer
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


@dataclass(frozen=True)
class CommandFailed(AssertionError):
    """A command that a person would type ended with an error; the text is what it printed."""

    command: tuple[str, ...]
    status: int
    printed: str

    def __str__(self) -> str:
        return f"{' '.join(self.command)} ended with status {self.status}: {self.printed}"


@dataclass(frozen=True)
class Command:
    """`kubectl` or `helm` of the local cluster's version, as a person would call it."""

    program: Path

    def __call__(self, *arguments: str, stdin: str | None = None) -> str:
        """Return what it printed on standard output; raise CommandFailed with its words if it fails."""
        done = subprocess.run(
            [str(self.program), *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "KUBECONFIG": str(paths.KUBECONFIG)},
        )
        if done.returncode != 0:
            raise CommandFailed((self.program.name, *arguments), done.returncode, done.stderr.strip())
        return done.stdout


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


MakeNamespace = Callable[[str], str]


@contextmanager
def namespaces(api: ApiServer) -> Iterator[MakeNamespace]:
    """Make namespaces, all removed when the block ends (without waiting: each has a name of its own)."""
    made: list[str] = []

    def make(title: str) -> str:
        slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:40].strip("-")
        name = f"t-{slug}-{secrets.token_hex(2)}"
        api.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        made.append(name)
        return name

    try:
        yield make
    finally:
        for name in made:
            for pod in api.list(POD, name):
                api.delete(POD, pod["metadata"]["name"], name, seconds=0)
            api.delete(NAMESPACE, name)


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
