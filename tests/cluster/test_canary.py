"""A canary on the real control plane, with metrics of a real Prometheus: what can't be judged moves nothing, and what
can is stopped, held or promoted.

The engines are stand-ins, fed recorded samples; what a candidate is worse at is in its environment.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from apiserver import CONFIG_MAP, SDD, Object
from objects import COMPLETIONS_URL, MODEL, TOKENS_PER_SECOND, environment, standin
from quickprometheus import QuickPrometheus, quick_prometheus
from workspace import Workspace, condition, uids

from specdecode_local.load import Report, Target, run_load
from specdecode_operator.api import names

NAME = "proven"
ACCEPTANCE_LENGTH = "STANDIN_ACCEPTANCE_LENGTH"
START_DELAY = "STANDIN_START_DELAY_SECONDS"
"""Any setting that changes nothing in what is measured makes a revision that is no different."""

STREAMS = 8
TOKENS = 40
SPEED = "200"
"""Tokens a second: a request takes a fifth of a second, so 600 are soon through."""

REPLICAS = 8
WINDOW_SECONDS = 3
HISTORY_SECONDS = 131 * WINDOW_SECONDS
"""What a registration reads, and a window more."""

SHORT = {"slots": 1, "minDuration": "30s", "maxDuration": "30s"}
"""Ten windows: the least that a step can have."""

DECIDES = {"slots": 2, "minDuration": "30s", "maxDuration": "4m"}


def canary(*steps: Object, backend: str = "quick") -> Object:
    """What an object says that has its revisions proven, by their acceptance length."""
    return {
        "metrics": {"backend": backend, "scrapeInterval": "1s", "window": f"{WINDOW_SECONDS}s"},
        "gates": [{"name": "acceptance", "metric": "acceptanceLength", "margin": "5%"}],
        "rollout": {"strategy": "Canary", "steps": list(steps)},
    }


def serving(workspace: Workspace, image: str, *, replicas: int, spec: Object) -> set[str]:
    """An object at rest, proven by serving; its pods' UIDs."""
    settings = {TOKENS_PER_SECOND: SPEED}
    hostname = f"{workspace.name}.test"
    workspace.create(standin(NAME, image, replicas=replicas, hostname=hostname, settings=settings, spec=spec))
    workspace.await_settled(NAME)
    return uids(workspace.pods(NAME))


def changed(**settings: str) -> Object:
    """A change of the engines' environment: another revision."""
    return {"engine": {"env": environment({TOKENS_PER_SECOND: SPEED, **settings})}}


def ask(workspace: Workspace, verb: str, run: str) -> None:
    text = json.dumps({"id": f"{verb}-{run}", "verb": verb, "runID": run, "by": "a test", "reason": "seen enough"})
    workspace.api.patch(SDD, NAME, {"metadata": {"annotations": {names.ANNOTATION_REQUEST: text}}}, workspace.name)


# --- What can't be judged ---------------------------------------------------------------------------------------------


def test_a_fleet_too_small_for_a_canary_is_told_and_nothing_moves(workspace: Workspace, standin_image: str) -> None:
    before = serving(workspace, standin_image, replicas=2, spec=canary(SHORT, backend="main"))
    workspace.change(NAME, changed(**{START_DELAY: "0.1"}))
    workspace.await_condition(
        NAME,
        names.CONDITION_PROGRESSING,
        status="False",
        reason=names.REASON_UNFIT,
        contains="2 replicas with 1 on the candidate leave 1 stable slots",
    )
    workspace.holds_for("no pod is replaced", lambda: uids(workspace.pods(NAME)) == before, seconds=5)

    workspace.change(NAME, {"rollout": {"strategy": "Replace"}})
    sdd = workspace.await_settled(NAME)
    assert not uids(workspace.pods(NAME)) & before
    assert {each["type"] for each in sdd["status"]["conditions"]}.isdisjoint(names.CANARY_CONDITIONS)


def test_nothing_moves_while_the_metrics_backend_is_down(workspace: Workspace, standin_image: str) -> None:
    before = serving(workspace, standin_image, replicas=3, spec=canary(SHORT, backend="nobody"))
    workspace.change(NAME, changed(**{START_DELAY: "0.1"}))
    workspace.await_condition(NAME, names.CONDITION_METRICS, status="False", reason=names.REASON_BACKEND_DOWN)
    workspace.await_condition(NAME, names.CONDITION_PROGRESSING, status="True", reason=names.REASON_PLANNING)
    ask(workspace, "promote", "0000000000")
    refused = workspace.await_that(
        "a run that isn't there can't be promoted",
        lambda: (workspace.sdd(NAME)["status"].get("request") or {}).get("refused"),
    )
    assert "runID: found 0000000000" in refused
    assert uids(workspace.pods(NAME)) == before

    workspace.change(NAME, changed())
    workspace.await_settled(NAME)
    assert uids(workspace.pods(NAME)) == before


def test_a_history_that_is_too_short_is_told_and_nothing_moves(workspace: Workspace, standin_image: str) -> None:
    spec = {**canary({"slots": 1}), "metrics": {"backend": "main"}}
    before = serving(workspace, standin_image, replicas=3, spec=spec)
    workspace.change(NAME, changed(**{START_DELAY: "0.1"}))
    workspace.await_condition(
        NAME,
        names.CONDITION_PROGRESSING,
        status="False",
        reason=names.REASON_UNFIT,
        contains="let the stable revision serve longer",
    )
    assert uids(workspace.pods(NAME)) == before


# --- What can ---------------------------------------------------------------------------------------------------------


@contextmanager
def load(hostname: str) -> Iterator[Report]:
    """Requests all the time; each is counted."""
    target = Target(url=COMPLETIONS_URL, model=MODEL, host=hostname, max_tokens=TOKENS, prompt="Once.")
    report, loop, stop = Report(), asyncio.new_event_loop(), asyncio.Event()
    asked = run_load(target, streams=STREAMS, seconds=3600, stop=stop, report=report)
    thread = threading.Thread(target=loop.run_until_complete, args=(asked,))
    thread.start()
    try:
        yield report
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


def await_history(workspace: Workspace, prometheus: QuickPrometheus) -> None:
    """Until every pod that serves has been scraped for as long as a calibration looks back."""

    def enough() -> bool:
        found = sorted(prometheus.scrapes(HISTORY_SECONDS))
        assert found, "no pod was scraped"
        assert found[-REPLICAS:][0] >= 0.97 * HISTORY_SECONDS, f"scrapes of each pod: {found}"
        return True

    workspace.await_that("the stable pods have a history", enough, seconds=2.5 * HISTORY_SECONDS)


def await_run(workspace: Workspace, phase: str, step: str, *, seconds: float = 300) -> Object:
    """The object once its run is in a phase of a step."""

    def check() -> Object | None:
        sdd = workspace.sdd(NAME)
        run = sdd["status"].get("run") or {}
        said = condition(sdd, names.CONDITION_PROGRESSING)
        assert (run.get("phase"), run.get("step")) == (phase, step), f"{run} {said['reason']}: {said['message']}"
        return sdd

    return workspace.await_that(f"the canary's step {step} is {phase}", check, seconds=seconds)


def await_verdict(workspace: Workspace, run: str, *, seconds: float = 300) -> Object:
    def check() -> Object | None:
        sdd = workspace.sdd(NAME)
        found = [each for each in sdd["status"].get("verdicts") or () if each["run"] == run]
        assert found, str(sdd["status"].get("run"))
        return dict(found[0])

    return workspace.await_that(f"run {run} ends", check, seconds=seconds)


def slots(sdd: Object) -> int:
    """Slots of the candidate."""
    return int((sdd["status"].get("candidate") or {}).get("slots", 0))


def is_stopped(workspace: Workspace) -> None:
    """A candidate that accepts next to nothing fails, gives its slots back and isn't tried again."""
    stable = workspace.sdd(NAME)["status"]["stable"]["revision"]
    before = uids(workspace.pods(NAME))
    workspace.change(NAME, {**changed(**{ACCEPTANCE_LENGTH: "1.05"}), **canary(DECIDES)})
    run = await_run(workspace, "Measuring", "1/1")["status"]["run"]["id"]
    verdict = await_verdict(workspace, run)
    print(f"stopped: {verdict['message']}")
    assert verdict["outcome"] == "Fail"
    workspace.await_that("its slots are back", lambda: slots(workspace.sdd(NAME)) == 0)
    workspace.await_condition(NAME, names.CONDITION_READY, status="True", reason=names.REASON_ALL_READY)
    sdd = workspace.sdd(NAME)
    assert sdd["status"]["stable"]["revision"] == stable
    assert sdd["status"]["rejected"][-1]["run"] == run
    assert condition(sdd, names.CONDITION_PROGRESSING)["reason"] == names.REASON_REJECTED
    assert len(before & uids(workspace.pods(NAME))) == REPLICAS - 2


def is_held(workspace: Workspace, prometheus: QuickPrometheus) -> None:
    """With Prometheus gone, its slots are held until somebody decides."""
    workspace.change(NAME, {**changed(**{START_DELAY: "0.1"}), **canary(SHORT)})
    run = await_run(workspace, "Settling", "1/1")["status"]["run"]["id"]
    await_run(workspace, "Measuring", "1/1")
    prometheus.stop()
    workspace.await_condition(NAME, names.CONDITION_METRICS, status="False", reason=names.REASON_BACKEND_DOWN)
    held = workspace.await_condition(NAME, names.CONDITION_ROLLOUT, status="False", reason=names.REASON_RUN_HELD)
    print(f"held: {held['message']}")
    assert slots(workspace.sdd(NAME)) == 1
    ask(workspace, "abort", run)
    assert await_verdict(workspace, run)["outcome"] == "Aborted"
    prometheus.start()
    workspace.await_that("its slot is back", lambda: slots(workspace.sdd(NAME)) == 0)
    workspace.await_condition(NAME, names.CONDITION_READY, status="True", reason=names.REASON_ALL_READY)


def is_promoted(workspace: Workspace) -> None:
    """A candidate that is no different gets all slots, after its steps."""
    workspace.change(NAME, {**changed(**{START_DELAY: "0.2"}), **canary(SHORT, DECIDES)})
    run = await_run(workspace, "Measuring", "1/2")["status"]["run"]
    plan = workspace.api.get(CONFIG_MAP, run["plan"], workspace.name)
    assert plan is not None
    assert plan["immutable"] is True
    assert slots(await_run(workspace, "Measuring", "2/2")) == 2
    verdict = await_verdict(workspace, run["id"], seconds=400)
    print(f"promoted: {verdict['message']}")
    assert verdict["outcome"] == "Pass", verdict
    sdd = workspace.await_settled(NAME)
    assert sdd["status"]["stable"]["revision"] == verdict["revision"]


@pytest.mark.alone
@pytest.mark.minutes
def test_a_canary_is_stopped_held_and_promoted_by_live_telemetry(
    workspace: Workspace, standin_image: str, tmp_path: Path, long_form: bool
) -> None:
    if not long_form:
        pytest.skip("takes twenty minutes, most of it until there is a history: long form only")
    serving(workspace, standin_image, replicas=REPLICAS, spec=canary(DECIDES))
    with quick_prometheus(tmp_path, workspace.name) as prometheus, load(f"{workspace.name}.test") as report:
        await_history(workspace, prometheus)
        is_stopped(workspace)
        is_held(workspace, prometheus)
        await_history(workspace, prometheus)
        is_promoted(workspace)
    print(report.sentence())
    assert report.completed
    assert not report.failed, report.sentence()
