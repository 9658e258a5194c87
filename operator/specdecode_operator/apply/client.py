"""Requests to the API server, over the official client's asynchronous side, with plain dicts in and out.

The generated models are left aside: they drop fields that they don't know, and server-side apply needs the manifest
as it was built. Each failure is one of the classes below, with the server's own words.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import aiohttp
from kubernetes.aio import client as k8s
from kubernetes.aio import config as k8s_config

Json = dict[str, Any]

APPLY: Final = "application/apply-patch+yaml; charset=utf-8"
"""The body is read as YAML, which has no surrogate pairs: what JSON escapes as two goes there as it is."""
MERGE: Final = "application/merge-patch+json"
THROTTLE_TRIES: Final = 4
"""Requests answered 429 are tried this often before the reconcile is put off with its own backoff."""


class ApiError(Exception):
    """The API server answered with a failure.

    `code` is the HTTP status, `reason` Kubernetes' word for it (Conflict, NotFound, ...), `causes` the machine-readable
    details, `retry_after` seconds that the server asks to wait.
    """

    def __init__(self, code: int, status: Json, retry_after: float | None = None) -> None:
        self.code = code
        self.reason = str(status.get("reason") or "")
        self.message = str(status.get("message") or f"HTTP {code}")
        details = status.get("details") or {}
        self.causes = tuple(str(cause.get("reason", "")) for cause in details.get("causes") or ())
        seconds = details.get("retryAfterSeconds")
        self.retry_after = retry_after if retry_after is not None else float(seconds) if seconds else None
        super().__init__(f"{self.reason or code}: {self.message}")


class NotFound(ApiError):
    """404: the object, or the whole kind, is not there."""


class Conflict(ApiError):
    """409: it changed since it was read; plan again."""


class Expired(ApiError):
    """410: the resource version is too old; list again."""


class Forbidden(ApiError):
    """403: refused by RBAC, quota or admission."""


class NamespaceTerminating(Forbidden):
    """403: nothing new may be made in a namespace that is being deleted. It never comes back from that."""


class Invalid(ApiError):
    """422, 413 or 400: the server doesn't take the manifest as it is."""


class Unreachable(Exception):
    """No answer at all: refused connection, reset, timeout, TLS failure."""


ERRORS: Final[Mapping[int, type[ApiError]]] = {
    400: Invalid,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    413: Invalid,
    422: Invalid,
}


def error_from(code: int, body: bytes, headers: Mapping[str, str]) -> ApiError:
    """The exception for a failed answer, whatever its body holds."""
    try:
        status = json.loads(body)
    except ValueError:
        status = {}
    if not isinstance(status, dict):
        status = {}
    status.setdefault("message", body.decode(errors="replace")[:500].strip())
    after = headers.get("Retry-After", "")
    failure = ERRORS.get(code, ApiError)(code, status, float(after) if after.isdigit() else None)
    if isinstance(failure, Forbidden) and "NamespaceTerminating" in failure.causes:
        return NamespaceTerminating(code, status, failure.retry_after)
    return failure


def in_a_pod() -> bool:
    """Whether this process has a service account to speak with."""
    token = k8s_config.incluster_config.SERVICE_TOKEN_FILENAME
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and os.path.exists(token)


async def connect(*, request_timeout: float = 30.0) -> Api:
    """A client from the pod's service account, else from the kubeconfig."""
    configuration = k8s.Configuration()
    if in_a_pod():
        k8s_config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    else:
        await k8s_config.load_kube_config(  # type: ignore[no-untyped-call]
            client_configuration=configuration, persist_config=False
        )
    configuration.connection_pool_maxsize = 0  # each watch holds a connection; a bound would starve the requests
    return Api(k8s.ApiClient(configuration=configuration), request_timeout=request_timeout)


class Api:
    """The few verbs that the operator uses."""

    def __init__(self, client: k8s.ApiClient, *, request_timeout: float = 30.0) -> None:
        self._client = client
        self._client.user_agent = "specdecode-operator"
        self._timeout = aiohttp.ClientTimeout(total=request_timeout, sock_connect=5)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()  # type: ignore[no-untyped-call]

    async def named(self, path: str, name: str) -> Json | None:
        """The object of that name in a collection, by the right to list it; None if it isn't there."""
        found = (await self.get(path, {"fieldSelector": f"metadata.name={name}"})).get("items") or []
        return found[0] if found else None

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> Json:
        """Read an object or a collection."""
        return await self._request("GET", path, query=query)

    async def list(self, path: str, query: Mapping[str, str]) -> tuple[list[Json], str]:
        """All pages of a collection, and the resource version to watch from."""
        items: list[Json] = []
        token = ""
        while True:
            page = await self.get(path, {**query, "limit": "500", **({"continue": token} if token else {})})
            items += page.get("items") or []
            token = page["metadata"].get("continue", "")
            if not token:
                return items, page["metadata"].get("resourceVersion", "")

    async def apply(self, path: str, manifest: Json, *, manager: str, force: bool = True) -> Json:
        """Server-side apply; with `force` what others set on our fields is taken back, else that is a Conflict."""
        query = {"fieldManager": manager, "force": str(force).lower()}
        body = json.dumps(manifest, ensure_ascii=False)
        return await self._request("PATCH", path, query=query, body=body, content_type=APPLY)

    async def merge(self, path: str, patch: Json, *, manager: str) -> Json:
        """JSON merge patch: lists are replaced whole, None removes."""
        return await self._request("PATCH", path, query={"fieldManager": manager}, body=patch, content_type=MERGE)

    async def put(self, path: str, manifest: Json, *, manager: str) -> Json:
        """Replace; with a resourceVersion in the manifest it fails with Conflict if the object changed."""
        return await self._request("PUT", path, query={"fieldManager": manager}, body=manifest)

    async def post(self, path: str, manifest: Json, *, manager: str) -> Json:
        """Create."""
        return await self._request("POST", path, query={"fieldManager": manager}, body=manifest)

    async def delete(self, path: str, *, uid: str) -> None:
        """Delete this very object, and its dependents in the background."""
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "preconditions": {"uid": uid},
        }
        await self._request("DELETE", path, body=body)

    async def watch(self, path: str, query: Mapping[str, str], *, inactivity: float) -> AsyncIterator[Json]:
        """Lines of a watch, until the server ends it.

        Raises Unreachable if nothing, not even a bookmark, came for `inactivity` seconds: a dead connection can look
        open for ever (kopf#1120).
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=inactivity)
        response = await self._send("GET", path, {**query, "watch": "true"}, None, "application/json", timeout)
        try:
            if response.status >= 300:
                raise error_from(response.status, await response.read(), response.headers)
            async for line in response.content:
                yield json.loads(line)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise Unreachable(f"watch of {path} broke: {error or type(error).__name__}") from error
        finally:
            response.close()

    async def _request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Json | str | None = None,
        content_type: str = "application/json",
    ) -> Json:
        for attempt in range(1, THROTTLE_TRIES + 1):
            response = await self._send(method, path, query or {}, body, content_type, self._timeout)
            try:
                data = await response.read()
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise Unreachable(f"{method} {path}: {error or type(error).__name__}") from error
            if response.status < 300:
                result: Json = json.loads(data)
                return result
            failure = error_from(response.status, data, response.headers)
            if failure.code != 429 or attempt == THROTTLE_TRIES:
                raise failure
            await asyncio.sleep(min(failure.retry_after or 1.0, 10.0))
        raise AssertionError("unreachable")

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Json | str | None,
        content_type: str,
        limits: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        try:
            request = await self._client.param_serialize(
                method,
                path,
                query_params=list(query.items()),
                header_params={"Accept": "application/json", "Content-Type": content_type},
                body=body,
                auth_settings=["BearerToken"],
            )
            answer = await self._client.call_api(*request, _request_timeout=limits)
        except (aiohttp.ClientError, TimeoutError, OSError, ssl.SSLError) as error:
            raise Unreachable(f"{method} {path}: {error or type(error).__name__}") from error
        response: aiohttp.ClientResponse = answer.response
        return response
