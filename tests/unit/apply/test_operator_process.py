"""Settings, what kopf has delivered, and what the watchdog says."""

import asyncio
import os
import signal
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE
from typing import Any

import pytest

from specdecode_operator.apply import kinds
from specdecode_operator.apply.client import Invalid, NamespaceTerminating, error_from
from specdecode_operator.apply.execute import same_owner
from specdecode_operator.apply.gather import mount_words
from specdecode_operator.apply.meters import Meters
from specdecode_operator.apply.store import Key
from specdecode_operator.apply.watch import Watch
from specdecode_operator.handlers import Seen
from specdecode_operator.health import Watchdog
from specdecode_operator.settings import BadSetting, Settings

KEY = Key("serving", "demo")


def event(kind: str | None, version: int, uid: str = "u") -> dict[str, Any]:
    meta = {"name": "demo", "namespace": "serving", "uid": uid, "resourceVersion": str(version)}
    return {"type": kind, "object": {"metadata": meta}}


def test_unset_and_empty_variables_mean_the_default() -> None:
    assert Settings.from_env({}) == Settings.from_env({"SPECDECODE_WATCH_NAMESPACES": "", "SPECDECODE_LOG_LEVEL": ""})


def test_lists_are_separated_by_commas() -> None:
    settings = Settings.from_env({"SPECDECODE_WATCH_NAMESPACES": "a, b,", "SPECDECODE_ALLOWED_HOST_PATHS": "/models"})
    assert settings.watch_namespaces == ("a", "b")
    assert settings.allowed_host_paths == ("/models",)


@pytest.mark.parametrize(("text", "believed"), [("true", True), ("false", False), ("", False)])
def test_a_request_s_name_is_believed_only_where_the_chart_says_so(text: str, believed: bool) -> None:
    assert Settings.from_env({"SPECDECODE_VERIFIED_REQUESTS": text}).verified_requests is believed


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LOG_LEVEL", "loud"),
        ("HEALTH_PORT", "http"),
        ("HEALTH_PORT", "0"),
        ("REQUEST_TIMEOUT", "-1"),
        ("VERIFIED_REQUESTS", "yes"),
    ],
)
def test_a_bad_setting_is_named_with_what_it_holds(name: str, value: str) -> None:
    with pytest.raises(BadSetting, match=f"SPECDECODE_{name}: found '{value}'"):
        Settings.from_env({f"SPECDECODE_{name}": value})


def test_kopf_lacks_what_it_has_not_delivered() -> None:
    seen = Seen()
    assert seen.lacks(KEY, ("u", 1))
    assert seen.take(event("ADDED", 5)) == KEY
    assert not seen.lacks(KEY, ("u", 5))
    assert seen.lacks(KEY, ("u", 6))
    assert seen.lacks(KEY, ("another", 5))
    seen.take(event("DELETED", 7))
    assert seen.lacks(KEY, ("u", 5))


def watchdog(watch: Watch, busy: float = 0.0) -> Watchdog:
    return Watchdog(watches=[watch], busy=lambda: busy, max_age=300, deadline=100)


@pytest.fixture
def watch() -> Watch:
    listed = Watch(api=None, store=None, kind=kinds.POD, namespace=None, meters=Meters())  # type: ignore[arg-type]
    listed.synced.set()
    return listed


def test_what_has_not_been_listed_yet_is_named(watch: Watch) -> None:
    watch.synced.clear()
    assert watchdog(watch).faults() == ["pods in all namespaces haven't been listed yet"]


def test_a_fresh_process_is_healthy(watch: Watch) -> None:
    assert watchdog(watch).faults() == []


def test_a_silent_watch_is_named(watch: Watch) -> None:
    watch.heard = time.monotonic() - 301
    assert "the watch of pods in all namespaces has been silent for 301 s" in watchdog(watch).faults()


def test_a_hanging_reconcile_is_said(watch: Watch) -> None:
    assert watchdog(watch, busy=199).faults() == []
    assert watchdog(watch, busy=201).faults() == ["a reconcile has been running for 201 s"]


@pytest.mark.parametrize("body", [b"", b"not json", b"[]", b"null", b"<html>"])
def test_a_failure_without_a_status_is_still_a_failure(body: bytes) -> None:
    assert error_from(502, body, {"Retry-After": "3"}).retry_after == 3


def test_a_manifest_that_is_too_large_is_refused_like_one_that_is_wrong() -> None:
    assert isinstance(error_from(413, b"Request entity too large", {}), Invalid)


def test_a_terminating_namespace_is_told_from_other_refusals() -> None:
    body = b'{"reason":"Forbidden","message":"x","details":{"causes":[{"reason":"NamespaceTerminating"}]}}'
    assert isinstance(error_from(403, body, {}), NamespaceTerminating)
    quota = error_from(403, b'{"reason":"Forbidden","message":"exceeded quota"}', {})
    assert not isinstance(quota, NamespaceTerminating)


OURS: dict[str, Any] = {"labels": {"a": "1", "b": "2"}, "ownerReferences": [{"uid": "ours"}]}


@pytest.mark.parametrize(
    ("metadata", "same"),
    [
        ({"ownerReferences": [{"uid": "ours"}]}, True),
        ({"ownerReferences": [{"uid": "theirs"}], "labels": OURS["labels"]}, False),
        ({"labels": {**OURS["labels"], "more": "3"}}, True),
        ({"labels": {"a": "1"}}, False),
        ({}, False),
    ],
)
def test_what_has_a_childs_name_is_ours_by_its_owner_or_once_orphaned_by_its_labels(
    metadata: dict[str, Any], same: bool
) -> None:
    assert same_owner({"metadata": metadata}, {"metadata": OURS}) is same


def mount_event(second: int, message: str, reason: str = "FailedMount") -> dict[str, Any]:
    return {"reason": reason, "message": message, "lastTimestamp": f"2026-01-01T00:00:{second:02}Z", "metadata": {}}


def test_a_failed_mount_is_told_by_its_cause_not_by_the_newest_summary() -> None:
    cause = mount_event(5, 'MountVolume.SetUp failed for volume "a": secret "b" not found')
    older = mount_event(1, 'MountVolume.SetUp failed for volume "a": timeout')
    summary = mount_event(9, "Unable to attach or mount volumes: unmounted volumes=[a]: context deadline exceeded")
    other = mount_event(10, "Readiness probe failed", "Unhealthy")
    assert mount_words([older, cause, summary, other]) == cause["message"]
    assert mount_words([summary, other]) == summary["message"]
    assert mount_words([other]) == ""


async def test_a_sigterm_while_it_still_imports_ends_it_cleanly() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-X", "importtime", "-m", "specdecode_operator", "run"),
        env={**os.environ, "KUBECONFIG": os.devnull},
        stdout=DEVNULL,
        stderr=PIPE,
        limit=1 << 20,
    )
    assert process.stderr is not None
    async with asyncio.timeout(60):
        while b"kopf" not in (line := await process.stderr.readline()):
            assert line, "it ended without importing kopf"
        process.send_signal(signal.SIGTERM)
        await process.stderr.read()
        assert await process.wait() == 0
