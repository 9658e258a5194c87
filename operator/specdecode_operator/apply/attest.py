"""Asks the pods what they say of their own files, beside the reconciles, which only read what was answered last.

An answer that is new wakes the pod's owner; one that says the same again wakes nobody, so that nothing is written at
rest. What is asked is a pod that may do anything: time, size and number of requests are bounded, no redirect is
followed, nothing is decompressed, and no proxy of the environment is used.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import aiohttp
from yarl import URL

from specdecode_operator.api import names
from specdecode_operator.apply.client import Json
from specdecode_operator.apply.kinds import POD
from specdecode_operator.apply.meters import Meters
from specdecode_operator.apply.store import Store, owner_of
from specdecode_operator.plan.observe import condition, leads, process_of
from specdecode_operator.plan.testimony import LONGEST, Answer, Attestation, Said, Silence, read

logger = logging.getLogger(__name__)

TRIES: Final = 4
"""Tries of a ready pod in a row that failed before its silence counts."""
CONNECT_SECONDS: Final = 2.0
"""Within a cluster a connection takes milliseconds; what a NetworkPolicy drops must not keep the others waiting."""
AT_ONCE: Final = 32
"""Requests in flight."""


@dataclass(frozen=True)
class Pace:
    """How often, and for how long, a pod is asked. Seconds."""

    tick: float = 0.5
    """Between two looks at which pods are to be asked."""
    loading: float = 3.0
    """Between two tries while the engine isn't ready: it may load for three quarters of an hour."""
    backoff: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
    """Between two tries of a ready pod that doesn't answer."""
    again: float = 60.0
    """Until a pod that gave its attestation is asked anew. A process reads its files once, so only a liar changes."""
    again_wrong: float = 15.0
    """The same for a pod whose answer is none."""
    timeout: float = 5.0


@dataclass
class _Asked:
    """One pod as far as it was asked."""

    process: str
    ready: bool
    due: float = 0.0
    failures: int = 0
    said: Said | None = None
    silent: str = ""
    """Why the first of the failures failed: later ones may alternate, and the words must stay."""
    request: asyncio.Task[None] | None = None


class Attestor:
    """Keeps what each pod's process said last."""

    def __init__(
        self,
        store: Store,
        notify: Callable[[Json], None],
        meters: Meters,
        *,
        pace: Pace | None = None,
        port: int = names.PORT,
    ) -> None:
        self._store = store
        self._notify = notify
        self._meters = meters
        self._pace = pace or Pace()
        self._port = port
        self._asked: dict[str, _Asked] = {}
        self._slots = asyncio.Semaphore(AT_ONCE)

    def answers(self, pods: Iterable[Json]) -> dict[str, Answer]:
        """What the processes of these pods said last, by pod UID; those that haven't been heard yet are left out."""
        found: dict[str, Answer] = {}
        for pod in pods:
            asked = self._asked.get(pod["metadata"]["uid"])
            if asked is not None and asked.said is not None:
                found[pod["metadata"]["uid"]] = Answer(asked.process, asked.said)
        return found

    async def run(self) -> None:
        """Ask until cancelled."""
        async with aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=self._pace.timeout, sock_connect=CONNECT_SECONDS),
            connector=aiohttp.TCPConnector(limit=AT_ONCE, force_close=True),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            headers={"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": names.FIELD_MANAGER},
        ) as session:
            try:
                while True:
                    self._look(session)
                    await asyncio.sleep(self._pace.tick)
            finally:
                requests = [each.request for each in self._asked.values() if each.request is not None]
                for request in requests:
                    request.cancel()
                await asyncio.gather(*requests, return_exceptions=True)

    def _look(self, session: aiohttp.ClientSession) -> None:
        """Begin what is due, and forget pods that are gone."""
        pods = {pod["metadata"]["uid"]: pod for pod in self._store.all(POD) if _to_be_asked(pod)}
        for uid in [uid for uid in self._asked if uid not in pods]:
            self._forget(uid)
        now = time.monotonic()
        for uid, pod in pods.items():
            asked = self._current(uid, pod)
            if asked.due <= now and asked.request is None:
                asked.request = asyncio.create_task(self._ask(session, pod, asked), name=f"attestation of {uid}")

    def _current(self, uid: str, pod: Json) -> _Asked:
        """Where the pod stands. Another process is another story, and one that got ready is asked at once."""
        process, ready = process_of(pod), _ready(pod)
        asked = self._asked.get(uid)
        if asked is None or asked.process != process:
            self._forget(uid)
            asked = self._asked[uid] = _Asked(process, ready)
        elif ready != asked.ready:
            asked.ready, asked.failures, asked.silent = ready, 0, ""
            if isinstance(asked.said, Silence):
                asked.said = None
            if ready and not isinstance(asked.said, Attestation):
                asked.due = 0.0
        return asked

    def _forget(self, uid: str) -> None:
        asked = self._asked.pop(uid, None)
        if asked is not None and asked.request is not None:
            asked.request.cancel()

    async def _ask(self, session: aiohttp.ClientSession, pod: Json, asked: _Asked) -> None:
        try:
            async with self._slots:
                said = await self._request(session, pod["status"]["podIP"])
            self._take(pod, asked, said)
        except Exception:
            logger.exception("Attestation of pod %s: asking failed", pod["metadata"]["name"])
            asked.due = time.monotonic() + self._pace.backoff[-1]
        finally:
            asked.request = None

    async def _request(self, session: aiohttp.ClientSession, address: str) -> Said:
        url = URL.build(scheme="http", host=address, port=self._port, path=names.ATTESTATION_PATH)
        try:
            async with asyncio.timeout(self._pace.timeout), session.get(url, allow_redirects=False) as response:
                return read(response.status, await _bounded(response))
        except TimeoutError:
            return Silence(f"nothing within {self._pace.timeout:g} s")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return Silence(_why(error))

    def _take(self, pod: Json, asked: _Asked, said: Said) -> None:
        """Keep what is new, and plan the next time. Silence counts only of a ready pod that never answered."""
        if isinstance(said, Silence):
            self._meters.attestations.labels("none").inc()
            asked.failures += 1
            asked.silent = asked.silent or said.why
            backoff = self._pace.backoff
            delay = backoff[min(asked.failures, len(backoff)) - 1] if asked.ready else self._pace.loading
            if asked.said is None and asked.ready and asked.failures >= TRIES:
                self._tell(pod, asked, Silence(asked.silent))
        else:
            answered = isinstance(said, Attestation)
            self._meters.attestations.labels("attestation" if answered else "other").inc()
            asked.failures, asked.silent = 0, ""
            delay = self._pace.again if answered else self._pace.again_wrong
            self._tell(pod, asked, said)
        asked.due = time.monotonic() + delay * random.uniform(0.8, 1.2)

    def _tell(self, pod: Json, asked: _Asked, said: Said) -> None:
        if said == asked.said:
            return
        asked.said = said
        logger.info("Pod %s of %s gives %s", pod["metadata"]["name"], owner_of(pod), type(said).__name__.lower())
        self._notify(pod)


async def _bounded(response: aiohttp.ClientResponse) -> bytes:
    """The body up to one byte beyond what is allowed; the rest is never read."""
    body = bytearray()
    async for part in response.content.iter_chunked(16 * 1024):
        body += part
        if len(body) > LONGEST:
            break
    return bytes(body[: LONGEST + 1])


def _why(error: Exception) -> str:
    """The failure's kind: its words hold addresses and counts that differ from one to the next."""
    if isinstance(error, aiohttp.ClientConnectorError):
        return "the connection is refused" if isinstance(error.os_error, ConnectionRefusedError) else "no connection"
    return "no HTTP" if isinstance(error, aiohttp.ClientError | ValueError) else "no connection"


def _to_be_asked(pod: Json) -> bool:
    """A pod of ours that answers requests, runs, and was told what its files must be."""
    meta, status = pod["metadata"], pod.get("status") or {}
    if owner_of(pod) is None or not leads(meta.get("labels") or {}) or meta.get("deletionTimestamp"):
        return False
    return bool(status.get("podIP") and process_of(pod) and _expects(pod))


def _expects(pod: Json) -> bool:
    containers = (pod.get("spec") or {}).get("containers") or ()
    return any(
        variable.get("name") == names.ENV_EXPECT_MANIFEST
        for container in containers
        if container.get("name") == names.CONTAINER
        for variable in container.get("env") or ()
    )


def _ready(pod: Json) -> bool:
    return (condition(pod, "Ready") or {}).get("status") == "True"
