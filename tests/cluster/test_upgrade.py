"""A newer operator renders pods differently; objects that serve keep theirs until their own spec changes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from apiserver import REPLICA_SET, Object
from hostoperator import HOST_OPERATORS, HostOperator, host_operator
from objects import drafts, standin
from operatorpod import InstalledOperator
from podhistory import restarts
from workspace import Workspace, uids

from specdecode_local import paths
from specdecode_operator.api import names

pytestmark = pytest.mark.alone(HOST_OPERATORS)

ADDED = {"name": "VLLM_NEWER_DEFAULT", "value": "1"}

NEWER = f'''

_template_before = template


def template(*arguments, **keywords):
    """What a later version of this file would render: one more environment variable."""
    rendered = _template_before(*arguments, **keywords)
    for container in rendered["spec"]["containers"]:
        container.setdefault("env", []).append({ADDED!r})
    return rendered
'''


def newer_source(folder: Path) -> Path:
    """A copy of the operator's source whose build/ adds an environment variable to every pod it renders."""
    source = folder / "newer"
    shutil.copytree(paths.REPOSITORY / "operator", source, ignore=shutil.ignore_patterns("__pycache__"))
    with (source / "specdecode_operator" / "build" / "pod.py").open("a") as pod:
        pod.write(NEWER)
    return source


def variables(pod: Object) -> set[str]:
    return {variable["name"] for variable in pod["spec"]["containers"][0].get("env", [])}


def writings(workspace: Workspace) -> dict[str, tuple[str, int]]:
    """ReplicaSets with their UID and generation: a changed spec has another generation."""
    return {
        found["metadata"]["name"]: (found["metadata"]["uid"], found["metadata"]["generation"])
        for found in workspace.api.list(REPLICA_SET, workspace.name)
    }


def test_an_operator_that_renders_one_more_variable_restarts_no_pod(
    workspace: Workspace, operator: InstalledOperator, standin_image: str, tmp_path: Path
) -> None:
    serving = [f"serving-{number}" for number in range(3)]
    with host_operator(workspace.api, operator, workspace.name, tmp_path) as process:
        process.start()
        for name in serving:
            workspace.create(standin(name, standin_image, replicas=2, hostname=f"{name}.{workspace.name}.test"))
        for name in serving:
            workspace.await_settled(name)
            workspace.await_condition(name, names.CONDITION_ROUTABLE, status="True")
        pods, replica_sets = uids(workspace.pods()), writings(workspace)

        process.kill()
        process.start(PYTHONPATH=str(newer_source(tmp_path)))
        process.await_healthy()
        it_is_the_newer_one(workspace, process, standin_image)
        workspace.holds_for(
            "every serving pod stays",
            lambda: pods <= uids(workspace.pods()) and restarted(workspace) == 0,
            seconds=10,
        )
        assert replica_sets.items() <= writings(workspace).items(), "no ReplicaSet was changed"
        a_changed_spec_takes_the_new_default(workspace, serving[0])

    assert uids(workspace.pods(serving[1])) <= pods
    print(f"{len(pods)} serving pods under a newer operator: 0 restarted, 0 of {len(replica_sets)} ReplicaSets changed")


def it_is_the_newer_one(workspace: Workspace, process: HostOperator, image: str) -> None:
    """A new object has the variable, so the changed source is really what runs."""
    workspace.create(standin("new", image, replicas=1))
    workspace.await_settled("new")
    assert ADDED["name"] in variables(workspace.pods("new")[0]), process.last_lines()


def a_changed_spec_takes_the_new_default(workspace: Workspace, name: str) -> None:
    workspace.change(name, drafts(2))
    workspace.await_settled(name)
    assert all(ADDED["name"] in variables(pod) for pod in workspace.pods(name))


def restarted(workspace: Workspace) -> int:
    return sum(restarts(pod) for pod in workspace.pods())
