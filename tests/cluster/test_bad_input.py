"""Bad input that admission cannot know to be bad: a clear condition, serving pods untouched, and a way out.

Every row edits an object that serves. What the planner refuses moves nothing at all; what only shows when a pod starts
takes the one slot that minAvailable leaves, while the others serve on. Then the cause is lifted, and it goes on from
there. (What the API server itself refuses is in test_admission.py, an API that isn't installed in test_multi_node.py.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from apiserver import QUOTA, SDD, SECRET, ApiServer, Object
from badinputtable import BadInputTable
from namespaces import MakeNamespace
from objects import BALLAST, CRASH_MESSAGE, GATEWAY, drafts, standin, unknown_digest
from operatorpod import InstalledOperator
from workspace import Workspace, condition, uids

from specdecode_operator.api import names

NAME = "row"
FLEET = "bad-input"


@dataclass(frozen=True)
class Row:
    """One bad input: the change of the spec, what is said about it, and how a person sets it right."""

    title: str
    change: Object
    reason: str
    contains: tuple[str, ...]
    """Words of the message: the field's path, or what the node or the API server said."""
    kind: str = names.CONDITION_PROGRESSING
    moves: bool = True
    """Whether a slot is taken before the error can be known."""
    prepare: Callable[[Workspace], object] = field(default=lambda workspace: None)
    lift: Callable[[Workspace], object] | None = None
    """What is brought or removed outside the spec; None: the spec is reverted."""


def quota(workspace: Workspace) -> None:
    hard = {"requests.memory": "160Mi"}
    small = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"}, "spec": {"hard": hard}}
    workspace.api.create(QUOTA, small, workspace.name)
    workspace.await_that(
        "the quota counts", lambda: (workspace.api.get(QUOTA, "small", workspace.name) or {})["status"]
    )


def no_quota(workspace: Workspace) -> None:
    workspace.api.delete(QUOTA, "small", workspace.name)


def bring_secret(workspace: Workspace) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "absent"}, "stringData": {"token": "x"}}
    workspace.api.create(SECRET, secret, workspace.name)


def env_from_secret() -> list[Object]:
    return [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "absent", "key": "token"}}}]


def mount(source: Object) -> Object:
    volume = {"name": "extra", **source}
    return {"template": {"volumes": [volume], "volumeMounts": [{"name": "extra", "mountPath": "/extra"}]}}


PLANNED = (
    Row(
        "tensor x pipeline does not fit the tray",
        {"accelerator": {"profile": "gb200"}, "parallelism": {"tensor": 8, "pipeline": 2}},
        names.REASON_INVALID_SPEC,
        ("spec.parallelism", "16", "4"),
        moves=False,
    ),
    Row(
        "minAvailable above replicas",
        {"minAvailable": 5},
        names.REASON_INVALID_SPEC,
        ("spec.minAvailable", "5"),
        moves=False,
    ),
    Row(
        "an argument that the operator owns",
        {"engine": {"args": ["--max-model-len", "512", "--port=9000"]}},
        names.REASON_INVALID_SPEC,
        ("spec.engine.args[2]", "--port"),
        moves=False,
    ),
    Row(
        "an argument that a field of the object says",
        {"engine": {"args": ["--speculative-config", "do-not-print-me"]}},
        names.REASON_INVALID_SPEC,
        ("spec.engine.args[0]", "--speculative-config", "belongs to speculative"),
        moves=False,
    ),
    Row(
        "a path of the node that the chart does not allow",
        mount({"hostPath": {"path": "/etc"}}),
        names.REASON_INVALID_SPEC,
        ("spec.template.volumes", "/etc"),
        moves=False,
    ),
    Row(
        "a service account that the chart does not allow",
        {"template": {"serviceAccountName": "admin"}},
        names.REASON_INVALID_SPEC,
        ("spec.template.serviceAccountName", "admin"),
        moves=False,
    ),
    Row(
        "two mistakes at once: both are named",
        {"minAvailable": 7, "template": {"serviceAccountName": "admin"}},
        names.REASON_INVALID_SPEC,
        ("spec.minAvailable", "spec.template.serviceAccountName"),
        moves=False,
    ),
)

ROUTED = (
    Row(
        "a hostname that another object has",
        {"traffic": {"hostnames": [f"{FLEET}.test"]}},
        names.REASON_HOSTNAME_TAKEN,
        (f"{FLEET}.test",),
        kind=names.CONDITION_ROUTABLE,
        moves=False,
    ),
    Row(
        "a gateway that is not there",
        {"traffic": {"gateway": {**GATEWAY, "name": "nowhere"}}},
        names.REASON_ROUTE_PENDING,
        ("nowhere",),
        kind=names.CONDITION_ROUTABLE,
        moves=False,
    ),
    Row(
        "a listener that the gateway does not have",
        {"traffic": {"gateway": {**GATEWAY, "sectionName": "nolistener"}}},
        names.REASON_ROUTE_REFUSED,
        ("gateway/specdecode", "No listeners match"),
        kind=names.CONDITION_ROUTABLE,
        moves=False,
    ),
)

STARTED = (
    Row(
        "an image that was never pushed",
        {"engine": {"image": unknown_digest("127.0.0.1:5000/specdecode/engine-standin")}},
        names.REASON_IMAGE_PULL,
        (unknown_digest("127.0.0.1:5000/specdecode/engine-standin"), "not found"),
    ),
    Row(
        "an engine that crashes at start",
        {"engine": {"env": [{"name": CRASH_MESSAGE, "value": "the weights do not fit"}]}},
        names.REASON_ENGINE_CRASHED,
        ("the weights do not fit",),
    ),
    Row(
        "an engine that takes more memory than its limit",
        {"engine": {"env": [{"name": BALLAST, "value": "400"}]}},
        names.REASON_ENGINE_CRASHED,
        ("OOMKilled",),
    ),
    Row(
        "a secret that is not there, in the environment",
        {"engine": {"env": env_from_secret()}},
        names.REASON_CONFIG_MISSING,
        ('secret "absent" not found',),
        lift=bring_secret,
    ),
    Row(
        "a secret that is not there, as a volume",
        mount({"secret": {"secretName": "absent"}}),
        names.REASON_CONFIG_MISSING,
        ('secret "absent" not found',),
        lift=bring_secret,
    ),
    Row(
        "a claim that is not there",
        mount({"persistentVolumeClaim": {"claimName": "nowhere"}}),
        names.REASON_CONFIG_MISSING,
        ("no PersistentVolumeClaim 'nowhere'",),
    ),
    Row(
        "a node label that no node has",
        {"template": {"nodeSelector": {"example.com/rack": "none"}}},
        names.REASON_UNSCHEDULABLE,
        ("node",),
    ),
    Row(
        "a priority class that is not there",
        {"template": {"priorityClassName": "nowhere"}},
        names.REASON_PODS_REFUSED,
        ("nowhere",),
    ),
    Row(
        "a quota that is used up",
        {"template": {"resources": {"requests": {"memory": "128Mi"}}}},
        names.REASON_PODS_REFUSED,
        ("exceeded quota: small",),
        prepare=quota,
        lift=no_quota,
    ),
)

ROWS = {row.title: row for row in sorted((*PLANNED, *ROUTED, *STARTED), key=lambda row: row.lift is None)}
"""First what is lifted: the longer it lasts, the longer the cluster's own controllers wait before they try again."""


@dataclass(frozen=True)
class Started:
    """A row's object: its namespace, its spec and its pods before the bad input."""

    workspace: Workspace
    spec: Object
    pods: set[str]
    revision: str


@pytest.fixture(scope="module")
def fleet(
    api: ApiServer, operator: InstalledOperator, make_namespace: MakeNamespace, standin_image: str
) -> dict[str, Started]:
    """Every row's object, started together, serving, and then given its bad input."""
    taken = Workspace(api=api, name=make_namespace("row-owner"), operator_log=operator.last_lines)
    taken.create(standin("owner", standin_image, replicas=1, hostname=f"{FLEET}.test"))
    spaces = {
        title: Workspace(api=api, name=make_namespace(f"row-{title}"), operator_log=operator.last_lines)
        for title in ROWS
    }
    for title, workspace in spaces.items():
        replicas = 2 if ROWS[title].moves else 1
        workspace.create(standin(NAME, standin_image, replicas=replicas, hostname=f"{workspace.name}.test"))
    taken.await_settled("owner", seconds=300)
    return {title: serve_then_spoil(workspace, ROWS[title]) for title, workspace in spaces.items()}


def serve_then_spoil(workspace: Workspace, row: Row) -> Started:
    sdd = workspace.await_settled(NAME, seconds=300)
    pods = uids(workspace.ready_pods(NAME))
    row.prepare(workspace)
    workspace.change(NAME, row.change)
    return Started(workspace, sdd["spec"], pods, sdd["status"]["stable"]["revision"])


@pytest.fixture(scope="module")
def table() -> Iterator[BadInputTable]:
    with BadInputTable("decided while it runs") as table:
        yield table


@pytest.mark.minutes
@pytest.mark.parametrize("title", ROWS)
def test_bad_input_is_said_clearly_and_harms_nothing(
    title: str, fleet: dict[str, Started], table: BadInputTable
) -> None:
    row, started = ROWS[title], fleet[title]
    workspace = started.workspace
    said = workspace.await_condition(NAME, row.kind, status="False", reason=row.reason, seconds=120)
    table.add(title, f"{row.kind}=False {said['reason']}: {said['message']}")
    for words in row.contains:
        assert words in said["message"], f"{words!r} is not in the message: {said['message']}"
    assert "do-not-print-me" not in said["message"], "a value may be a secret"
    still_serving = started.pods & uids(workspace.ready_pods(NAME))
    assert len(still_serving) == 1, f"the pods that may serve on do\n{workspace.state()}"
    sdd = workspace.sdd(NAME)
    assert sdd["status"]["stable"]["revision"] == started.revision
    assert condition(sdd, names.CONDITION_READY)["status"] == "True"

    set_right(workspace, row, started)
    workspace.await_settled(NAME, seconds=600)
    workspace.await_condition(NAME, names.CONDITION_ROUTABLE, status="True", seconds=30)
    assert still_serving <= uids(workspace.ready_pods(NAME)) or row.lift, "a revert restarts nothing"


def set_right(workspace: Workspace, row: Row, started: Started) -> None:
    if row.lift:
        row.lift(workspace)
    else:
        workspace.api.patch(SDD, NAME, [{"op": "replace", "path": "/spec", "value": started.spec}], workspace.name)


def test_a_bad_first_spec_is_refused_and_a_corrected_one_serves(workspace: Workspace, standin_image: str) -> None:
    workspace.create(standin(NAME, standin_image, replicas=1, spec={"engine": {"args": ["--port", "1"]}}))
    workspace.await_condition(
        NAME, names.CONDITION_PROGRESSING, status="False", reason=names.REASON_INVALID_SPEC, contains="spec.engine.args"
    )
    assert not workspace.pods(NAME)
    workspace.change(NAME, {"engine": {"args": []}, **drafts(2)})
    workspace.await_settled(NAME)
