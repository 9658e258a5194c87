"""Settings, what kopf has delivered, and what the watchdog says."""

import time
from typing import Any

import pytest

from specdecode_operator.apply import kinds
from specdecode_operator.apply.client import error_from
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


@pytest.mark.parametrize(
    ("name", "value"),
    [("LOG_LEVEL", "loud"), ("HEALTH_PORT", "http"), ("HEALTH_PORT", "0"), ("REQUEST_TIMEOUT", "-1")],
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


def test_a_terminating_namespace_is_told_from_other_refusals() -> None:
    body = b'{"reason":"Forbidden","message":"x","details":{"causes":[{"reason":"NamespaceTerminating"}]}}'
    assert error_from(403, body, {}).namespace_terminating
    assert not error_from(403, b'{"reason":"Forbidden","message":"exceeded quota"}', {}).namespace_terminating
