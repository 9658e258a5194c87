"""A changed spec takes over slot by slot: never below minAvailable, nothing cut, nothing restarted without a reason."""

from __future__ import annotations

import asyncio
import json

import pytest
from commands import Command
from gateway import complete
from objects import (
    COMPLETIONS_URL,
    LONG_DRAIN,
    MODEL,
    TOKENS_PER_SECOND,
    drafts,
    standin,
    unknown_digest,
)
from podhistory import PodHistory
from rolls import roll_under_load
from workspace import Workspace, current, settled, uids

from specdecode_local.load import Target
from specdecode_operator.api import names

STREAMS = 50
STREAM_SECONDS = 32
STREAM_SPEED = 4
"""Tokens a second of one stream: slow, so that each outlasts its pod's drain without much work on a small machine."""
ROLL_SECONDS = 400


def roll_is_gentle(history: PodHistory, *, replicas: int, min_available: int) -> None:
    """Never fewer Ready than promised, and never more pods at once than there are slots."""
    assert history.fewest_ready() >= min_available, (
        f"{history.fewest_ready()} pods were Ready at once, {min_available} were promised\n{history.story()}"
    )
    assert history.most_slots_held() <= replicas, (
        f"{history.most_slots_held()} pods held resources at once, there are {replicas} slots\n{history.story()}"
    )


@pytest.mark.alone
def test_fifty_streams_of_half_a_minute_outlive_the_roll_of_every_slot(
    workspace: Workspace, standin_image: str, long_form: bool
) -> None:
    name, hostname = "streams", f"{workspace.name}.test"
    slots = 3 if long_form else 2  # each takes half a minute, in which nothing else runs
    workspace.create(
        standin(
            name,
            standin_image,
            replicas=slots,
            hostname=hostname,
            settings={TOKENS_PER_SECOND: str(STREAM_SPEED)},
            spec={"drain": LONG_DRAIN},
        )
    )
    workspace.await_settled(name)
    workspace.await_condition(name, names.CONDITION_ROUTABLE, status="True")
    # Accepted comes moments before a new route is in force at the proxy; what is tested here starts once it serves.
    workspace.await_that("a completion comes through the gateway", lambda: complete(hostname), seconds=30)
    before = uids(workspace.pods(name))
    target = Target(
        url=COMPLETIONS_URL, model=MODEL, host=hostname, max_tokens=STREAM_SECONDS * STREAM_SPEED, prompt="Count."
    )
    with workspace.history(name) as history:
        report = asyncio.run(
            roll_under_load(workspace, name, drafts(2), target=target, streams=STREAMS, seconds=ROLL_SECONDS)
        )
    print(f"while rolling: {report.sentence()}; fewest Ready {history.fewest_ready()} of {slots}")
    assert report.failed == 0, f"{report.sentence()}\n{workspace.state()}\n{history.story()}"
    assert report.completed >= STREAMS
    assert report.shortest_seconds >= 30, "a stream that is shorter than a drain proves nothing"
    roll_is_gentle(history, replicas=slots, min_available=slots - 1)
    assert not before & uids(workspace.pods(name)), "every slot holds the new revision"
    assert len(history.seen) == 2 * slots, f"each slot changed once\n{history.story()}"


def test_a_pinned_minimum_is_kept_through_the_roll(workspace: Workspace, standin_image: str) -> None:
    name = "minimum"
    workspace.create(standin(name, standin_image, replicas=3, spec={"minAvailable": 1}))
    workspace.await_settled(name)
    with workspace.history(name) as history:
        workspace.change(name, drafts(2))
        workspace.await_settled(name)
    roll_is_gentle(history, replicas=3, min_available=1)


def test_labels_and_scale_and_drain_of_the_object_restart_nothing(workspace: Workspace, standin_image: str) -> None:
    name = "calm"
    workspace.create(standin(name, standin_image, replicas=2))
    first = workspace.await_settled(name)["status"]["stable"]["revision"]
    before = uids(workspace.pods(name))
    workspace.change(name, {"template": {"labels": {"team": "blue"}}, "minAvailable": 1})
    sdd = workspace.await_settled(name)
    assert sdd["status"]["stable"]["revision"] == first
    assert uids(workspace.pods(name)) == before


def test_a_revert_in_the_middle_of_a_roll_gives_the_moved_slots_back_and_keeps_the_others(
    workspace: Workspace, standin_image: str
) -> None:
    name = "revert"
    workspace.create(standin(name, standin_image, replicas=3))
    first = workspace.await_settled(name)["status"]["stable"]["revision"]
    before = uids(workspace.pods(name))
    with workspace.history(name) as history:
        workspace.change(name, drafts(2))
        workspace.await_that(
            "the candidate holds its first slot",
            lambda: workspace.sdd(name)["status"].get("candidate", {}).get("ready", 0) >= 1,
        )
        workspace.change(name, drafts(3))
        sdd = workspace.await_settled(name)
    assert sdd["status"]["stable"]["revision"] == first
    roll_is_gentle(history, replicas=3, min_available=2)
    kept = before & uids(workspace.pods(name))
    assert kept, f"slots that had not moved yet keep their pods\n{history.story()}"


def test_scaling_in_the_middle_of_a_roll_keeps_the_roll_going(
    workspace: Workspace, standin_image: str, kubectl: Command
) -> None:
    name = "scaled"
    workspace.create(standin(name, standin_image, replicas=3))
    first = workspace.await_settled(name)["status"]["stable"]["revision"]
    workspace.change(name, drafts(2))
    workspace.await_that("the candidate has a slot", lambda: workspace.sdd(name)["status"].get("candidate"))
    with workspace.history(name) as history:
        kubectl("scale", "sdd", name, "-n", workspace.name, "--replicas=4")
        sdd = workspace.await_settled(name)
    assert history.fewest_ready() >= 2, history.story()
    assert sdd["status"]["stable"]["revision"] != first
    assert len(workspace.ready_pods(name)) == 4


def test_a_second_change_before_the_first_is_through_ends_at_the_newest(
    workspace: Workspace, standin_image: str
) -> None:
    name = "twice"
    workspace.create(standin(name, standin_image, replicas=3))
    workspace.await_settled(name)
    with workspace.history(name) as history:
        workspace.change(name, drafts(2))
        workspace.await_that("the candidate has a slot", lambda: workspace.sdd(name)["status"].get("candidate"))
        workspace.change(name, drafts(1))
        workspace.await_settled(name)
    roll_is_gentle(history, replicas=3, min_available=2)
    arguments = [argument for pod in workspace.pods(name) for argument in pod["spec"]["containers"][0]["args"]]
    configured = [json.loads(argument) for argument in arguments if argument.startswith("{")]
    assert {config["num_speculative_tokens"] for config in configured} == {1}, arguments


def test_a_stuck_candidate_is_given_up_by_reverting_the_spec(workspace: Workspace, standin_image: str) -> None:
    name = "giveup"
    workspace.create(standin(name, standin_image, replicas=2))
    workspace.await_settled(name)
    before = uids(workspace.pods(name))
    workspace.change(name, {"engine": {"image": unknown_digest(standin_image)}})
    workspace.await_condition(name, names.CONDITION_PROGRESSING, status="False", reason=names.REASON_IMAGE_PULL)
    workspace.change(name, {"engine": {"image": standin_image}})
    workspace.await_settled(name)
    assert len(before & uids(workspace.pods(name))) == 1, "the slot that never moved keeps its pod"
    assert current(workspace.sdd(name))
    assert settled(workspace.sdd(name))


def test_a_first_revision_that_cannot_start_goes_on_when_the_spec_is_corrected(
    workspace: Workspace, standin_image: str
) -> None:
    name = "first"
    workspace.create(standin(name, unknown_digest(standin_image), replicas=2))
    workspace.await_condition(name, names.CONDITION_PROGRESSING, status="False", reason=names.REASON_IMAGE_PULL)
    workspace.await_condition(name, names.CONDITION_READY, status="False")
    workspace.change(name, {"engine": {"image": standin_image}})
    workspace.await_settled(name)
