"""Fixtures of the chart's tests: helm and kubeconform as `make up` builds them, the kinds that the API server knows."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import kubernetes_schemas
import pytest
from chart import Chart, built

from specdecode_local import paths


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One process renders each set of values once for all tests of the chart."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("charts"))


@pytest.fixture(scope="session")
def chart() -> Chart:
    return Chart(built("helm"))


@pytest.fixture(scope="session")
def published_schemas(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where kubeconform finds every kind of the running API server, as JSON schemas: its template of a file's path."""
    done = subprocess.run(
        [built("kubectl"), "get", "--raw", "/openapi/v2"],
        env=os.environ | {"KUBECONFIG": str(paths.KUBECONFIG)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.fail(f"the API server's schemas could not be read: {done.stderr.strip()}. `make up` starts the cluster")
    folder = tmp_path_factory.mktemp("schemas")
    kubernetes_schemas.write(kubernetes_schemas.from_openapi(json.loads(done.stdout)), folder)
    return str(folder / kubernetes_schemas.LOCATION)
