"""The operator may die at any moment: the next one ends where the first would have, with the same pods."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from apiserver import REPLICA_SET, ROUTE, ApiServer, Object
from crashing_operator import MOST_DEATHS, RECORD
from hostoperator import HOST_OPERATORS, HostOperator, host_operator
from objects import drafts, standin
from operatorpod import InstalledOperator
from podhistory import restarts
from workspace import Workspace, settled, uids

from specdecode_operator.api import names

CRASHING = (str(Path(__file__).parent / "crashing_operator.py"), "run")
NAME = "mortal"

pytestmark = pytest.mark.alone(HOST_OPERATORS)


def await_despite_deaths(
    workspace: Workspace, process: HostOperator, sentence: str, arrived: Callable[[Object], bool]
) -> None:
    """Wait until `arrived` while the operator dies after each write and is begun again."""

    def ended_or_arrived() -> bool:
        return process.ended() or arrived(workspace.sdd(NAME))

    workspace.await_that(f"{sentence}, however often the operator dies on the way", ended_or_arrived, seconds=240)
    assert not process.ended(), f"a life ended without a write, or {MOST_DEATHS} with one\n{process.last_lines()}"


def end_state(api: ApiServer, workspace: Workspace) -> Object:
    """What must be the same however often the operator died."""
    sdd = workspace.sdd(NAME)
    sets = {
        found["metadata"]["name"]: found["spec"]["replicas"]
        for found in workspace.replica_sets(NAME)
        if found["spec"]["replicas"]
    }
    route = api.get(ROUTE, NAME, workspace.name)
    assert route is not None
    return {
        "replica sets with pods": sets,
        "route": [(b["name"], b["weight"]) for b in route["spec"]["rules"][0]["backendRefs"]],
        "stable": sdd["status"]["stable"]["revision"],
        "candidate": sdd["status"].get("candidate"),
        "conditions": {c["type"]: (c["status"], c["reason"]) for c in sdd["status"]["conditions"]},
    }


def expected(sdd: Object, replicas: int) -> Object:
    revision = sdd["status"]["stable"]["revision"]
    child = names.revision_child(NAME, revision)
    return {
        "replica sets with pods": {child: replicas},
        "route": [(child, replicas)],
        "stable": revision,
        "candidate": None,
        "conditions": {
            names.CONDITION_READY: ("True", names.REASON_ALL_READY),
            names.CONDITION_PROGRESSING: ("True", names.REASON_COMPLETE),
            names.CONDITION_ATTESTED: ("True", names.REASON_ATTESTED),
            names.CONDITION_ROUTABLE: ("True", names.REASON_ROUTE_ACCEPTED),
        },
    }


def in_place(api: ApiServer, workspace: Workspace, replicas: int) -> Callable[[Object], bool]:
    def check(sdd: Object) -> bool:
        return settled(sdd) and end_state(api, workspace) == expected(sdd, replicas)

    return check


def test_killed_after_every_write_it_ends_where_it_would_have(
    api: ApiServer, workspace: Workspace, operator: InstalledOperator, standin_image: str, tmp_path: Path
) -> None:
    record = tmp_path / "writes"
    object_of_two = standin(NAME, standin_image, replicas=2, hostname=f"{workspace.name}.test")
    with (
        host_operator(api, operator, workspace.name, tmp_path, **{RECORD: str(record)}) as process,
        workspace.history(NAME) as history,
    ):
        process.start(CRASHING)
        workspace.create(object_of_two)
        await_despite_deaths(workspace, process, "the first revision serves", in_place(api, workspace, 2))
        first = uids(workspace.pods(NAME))

        began = len(history.moments)
        workspace.change(NAME, drafts(2))
        await_despite_deaths(workspace, process, "the second holds both slots", in_place(api, workspace, 2))
        second = uids(workspace.pods(NAME))
        fewest = min(len(moment.ready) for moment in history.moments[began:])

        workspace.change(NAME, {"replicas": 3})
        await_despite_deaths(workspace, process, "a third slot serves", in_place(api, workspace, 3))
    assert len(first) == len(second) == 2
    assert not first & second
    assert second < uids(workspace.pods(NAME)), "scaling up keeps every pod"
    assert len(history.seen) == 5, f"no slot was started twice\n{history.story()}"
    assert fewest >= 1, history.story()
    assert all(restarts(pod) == 0 for pod in history.seen.values())
    told = [event["message"] for event in workspace.events(NAME) if event.get("count", 1) > 1]
    assert not told, "an event is told at most once: killed after each status, it never is"
    writes = Counter(record.read_text().splitlines())
    assert {"apply ReplicaSet", "apply ControllerRevision", "apply HTTPRoute", "status"} <= set(writes), writes
    print(f"killed after each of {writes.total()} writes: {dict(writes)}")


@pytest.fixture
def chance() -> random.Random:
    """Seeded: a failure comes again with the same moments."""
    return random.Random(20)


def test_killed_by_chance_while_it_rolls_it_ends_where_it_would_have(
    api: ApiServer,
    workspace: Workspace,
    operator: InstalledOperator,
    standin_image: str,
    tmp_path: Path,
    chance: random.Random,
    long_form: bool,
) -> None:
    kills = 20 if long_form else 5
    changes = 0
    with host_operator(api, operator, workspace.name, tmp_path) as process:
        process.start()
        workspace.create(standin(NAME, standin_image, replicas=3, hostname=f"{workspace.name}.test"))
        workspace.await_settled(NAME)
        process.kill()
        with workspace.history(NAME) as history:
            for _ in range(kills):
                if in_place(api, workspace, 3)(workspace.sdd(NAME)):
                    changes += 1
                    workspace.change(NAME, drafts(1 + changes % 2))
                process.start()
                seconds = chance.uniform(0.5, 7.0)
                workspace.holds_for("it works until its moment comes", lambda: not process.ended(), seconds=seconds)
                process.kill()
            process.start()
            workspace.await_that(
                "the newest revision holds every slot",
                lambda: in_place(api, workspace, 3)(workspace.sdd(NAME)),
                seconds=180,
            )
    assert history.fewest_ready() >= 2, history.story()
    assert len(history.seen) == 3 + 3 * changes, f"each slot changed once for each change\n{history.story()}"
    assert all(restarts(pod) == 0 for pod in history.seen.values())
    assert len(api.list(REPLICA_SET, workspace.name)) >= 1
    print(f"killed {kills} times by chance over {changes} changes: {len(history.seen)} pods, none started twice")
