"""`/specdecode/attestation` and `/specdecode/ready`, by `--middleware specdecode_engine.asgi.Attested`.

The attestation is made once, when the server starts: it is of the files this process was started from.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from specdecode_engine import attestation, manifests, start
from specdecode_engine.attestation import Attestation

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

ATTESTATION = "/specdecode/attestation"
READY = "/specdecode/ready"


def of_this_process() -> Attestation:
    """The check of the installed files, as `start.check` made it."""
    return attestation.attest(start.installed_root(), manifests.of_installed_release())


def readiness(result: Attestation, *, healthy: bool) -> tuple[int, dict[str, bool]]:
    """Status and body of READY: the check passed, and the engine answers its health check."""
    ready = result.ok and healthy
    return 200 if ready else 503, {"ready": ready, "attested": result.ok}


class Attested:
    """ASGI middleware: answers the two paths, passes everything else on.

    Ready is 200 if the check passed and the engine's own /health answers 200; 503 otherwise.
    """

    def __init__(self, app: App, result: Attestation | None = None) -> None:
        self._app = app
        self._result = result or of_this_process()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path") if scope["type"] == "http" else None
        if path == ATTESTATION:
            await _answer(send, 200, self._result.document())
        elif path == READY:
            await _answer(send, *readiness(self._result, healthy=await self._healthy(scope, receive)))
        else:
            await self._app(scope, receive, send)

    async def _healthy(self, scope: Scope, receive: Receive) -> bool:
        status = 0

        async def keep_status(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]

        asked = {**scope, "path": "/health", "raw_path": b"/health", "method": "GET", "query_string": b""}
        await self._app(asked, receive, keep_status)
        return status == 200


async def _answer(send: Send, status: int, document: Mapping[str, object]) -> None:
    body = json.dumps(document).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
