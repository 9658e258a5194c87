"""The two paths that the engine's port answers for the operator and the kubelet."""

import json
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest

from specdecode_engine import asgi, attestation, overlay
from specdecode_engine.manifests import Manifest


async def ask(path: str, result: attestation.Attestation, *, health: int = 200) -> tuple[int, dict[str, Any]]:
    sent: list[MutableMapping[str, Any]] = []

    async def engine(scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        assert scope["path"] in ("/health", "/v1/models")
        await send({"type": "http.response.start", "status": health, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps({"from": scope["path"]}).encode()})

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    await asgi.Attested(engine, result)({"type": "http", "path": path, "method": "GET"}, receive, send)
    start, body = sent
    return start["status"], json.loads(body["body"])


@pytest.fixture
def good(root: Path, manifest: Manifest) -> attestation.Attestation:
    overlay.apply(root, manifest)
    return attestation.attest(root, manifest, {})


@pytest.fixture
def bad(root: Path, manifest: Manifest) -> attestation.Attestation:
    return attestation.attest(root, manifest, {})


async def test_the_attestation_is_served(good: attestation.Attestation, manifest: Manifest) -> None:
    status, said = await ask(asgi.ATTESTATION, good)
    assert (status, said["ok"], said["manifest_digest"]) == (200, True, manifest.digest)


async def test_a_failed_check_is_served_with_its_findings(bad: attestation.Attestation) -> None:
    status, said = await ask(asgi.ATTESTATION, bad)
    assert (status, said["ok"]) == (200, False)
    assert {finding["reason"] for finding in said["findings"]} == {"not applied"}


async def test_ready_needs_the_check_and_a_healthy_engine(good: attestation.Attestation) -> None:
    assert (await ask(asgi.READY, good))[0] == 200
    assert (await ask(asgi.READY, good, health=503))[0] == 503


async def test_an_unpatched_engine_is_never_ready(bad: attestation.Attestation) -> None:
    status, said = await ask(asgi.READY, bad)
    assert (status, said["attested"]) == (503, False)


async def test_everything_else_is_the_engines(good: attestation.Attestation) -> None:
    assert await ask("/v1/models", good) == (200, {"from": "/v1/models"})
