"""Asks one backend, in bounded time: each try, the tries of a whole fetch, and the bytes of an answer have an end.

No redirect is followed, since a credential must not follow it; nothing is unpacked; no proxy of the environment is
used. What failed is said in our own words: those of a backend, or of the HTTP library, may hold a header.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import Final, Self

import aiohttp
from yarl import URL

from specdecode_operator.api import names
from specdecode_operator.metrics import answer, backends
from specdecode_operator.metrics.answer import Series
from specdecode_operator.metrics.backends import Backend
from specdecode_operator.metrics.errors import BackendDown, TooMuch
from specdecode_operator.metrics.query import Query

CONNECT_SECONDS: Final = 3.0
TOO_LARGE: Final = (413, 422)
"""What backends answer that refuse to load so many samples; Prometheus' own is 422."""
PASSING: Final = (408, 425, 429, 500, 502, 503, 504)
"""What may be otherwise a second later."""
MEANT: Final = {
    400: "it doesn't take the query",
    401: "it wants a credential, or another one",
    403: "it refuses the credential, or the tenant",
    404: "there is no query API at that address",
}


@dataclass(frozen=True)
class Limits:
    """How much is asked of a backend, and of the operator, in one fetch."""

    deadline: float = 30.0
    """Seconds for all of it, whatever happens."""
    attempt: float = 10.0
    """Seconds for one request."""
    retries: int = 4
    """Requests that may be repeated in a fetch, over all its queries."""
    pause: float = 0.3
    """Seconds before the first repetition; each later one waits twice as long, give or take a half."""
    answer_bytes: int = 16 * 1024 * 1024
    """Of one answer. A sample takes some 25."""
    series: int = 20_000
    """Of one answer."""


@dataclass(frozen=True)
class _Trouble:
    """Why a try gave nothing."""

    why: str
    passing: bool = True


class Prometheus:
    """A backend while it is asked: `async with Prometheus(backend, limits) as asked`."""

    def __init__(self, backend: Backend, limits: Limits) -> None:
        self._backend = backend
        self._limits = limits
        self._repeated = 0
        self._url = URL(backend.url) / "api/v1/query"
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        """Read the credential, open nothing yet.

        Raises:
            BackendDown: a file of the backend's can't be read.
        """
        secret = backends.headers(self._backend)
        context = backends.trust(self._backend) if self._url.scheme == "https" else False
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=self._limits.attempt, sock_connect=CONNECT_SECONDS),
            connector=aiohttp.TCPConnector(limit=1, ssl=context),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            headers={
                "Accept": "application/json",
                "Accept-Encoding": "identity",
                "User-Agent": names.FIELD_MANAGER,
                **secret,
            },
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connection."""
        if self._session is not None:
            await self._session.close()

    async def ask(self, query: Query) -> tuple[Series, ...]:
        """The raw samples of a query.

        Raises:
            BackendDown: no try gave an answer.
            TooMuch: the answer is too large; asking again would change nothing.
        """
        while True:
            got = await self._attempt(query)
            if not isinstance(got, _Trouble):
                return got
            if not got.passing or self._repeated >= self._limits.retries:
                raise BackendDown(self._said(got.why, self._repeated if got.passing else 0))
            await asyncio.sleep(self._limits.pause * 2**self._repeated * random.uniform(0.5, 1.5))
            self._repeated += 1

    def _said(self, why: str, repeated: int = 0) -> str:
        again = f" (asked {repeated + 1} times)" if repeated else ""
        return f"backend {self._backend.name}: {why}{again}"

    async def _attempt(self, query: Query) -> tuple[Series, ...] | _Trouble:
        try:
            body = await self._request(query)
        except TimeoutError:
            return _Trouble(f"nothing within {self._limits.attempt:g} s")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return _Trouble(_why(error), passing=not isinstance(error, aiohttp.ClientConnectorCertificateError))
        if isinstance(body, _Trouble):
            return body
        return await self._read(body, query)

    async def _read(self, body: bytes, query: Query) -> tuple[Series, ...] | _Trouble:
        """In a thread: a large answer must not keep the operator's other work waiting."""
        try:
            return await asyncio.to_thread(answer.read, body, query, most=self._limits.series)
        except BackendDown as error:
            return _Trouble(str(error))
        except TooMuch as error:
            why = str(error)
        raise TooMuch(self._said(why))

    async def _request(self, query: Query) -> bytes | _Trouble:
        """The body of a good answer, else what its status means."""
        assert self._session is not None
        limits = self._limits
        parameters = {
            "query": str(query),
            "time": f"{query.until:.3f}",
            "timeout": f"{1000 * limits.attempt:.0f}ms",  # of its durations none has a fraction
            "limit": str(limits.series + 1),
            "partial_response": "false",  # Thanos: an error instead of an answer that lacks a store's part
        }
        async with asyncio.timeout(limits.attempt):
            async with self._session.get(self._url, params=parameters, allow_redirects=False) as response:
                if response.status in TOO_LARGE:
                    raise TooMuch(self._said(f"it answers {response.status}, so it won't load that much at once"))
                if response.status != 200:
                    return _refusal(response.status)
                return await self._bounded(response)

    async def _bounded(self, response: aiohttp.ClientResponse) -> bytes:
        body = bytearray()
        async for part in response.content.iter_chunked(64 * 1024):
            body += part
            if len(body) > self._limits.answer_bytes:
                raise TooMuch(self._said(f"its answer is larger than {self._limits.answer_bytes} bytes"))
        return bytes(body)


def _refusal(status: int) -> _Trouble:
    if 300 <= status < 400:
        return _Trouble(f"it answers {status} and sends us elsewhere; give the address where it ends", passing=False)
    meaning = f": {MEANT[status]}" if status in MEANT else ""
    return _Trouble(f"it answers {status}{meaning}", passing=status in PASSING)


def _why(error: Exception) -> str:
    """The failure's kind. The library's own words hold the request, and so its headers."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "its certificate isn't signed by the given CA, or is another host's"
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        return "it doesn't speak TLS there"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "there is no such host"
    if isinstance(error, aiohttp.ClientConnectorError):
        return "the connection is refused" if isinstance(error.os_error, ConnectionRefusedError) else "no connection"
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError | aiohttp.ClientOSError):
        return "the connection broke"
    return "it doesn't speak HTTP there"
