"""Every state that an object's pods went through, from the watch stream: no moment between two looks is missed."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from types import TracebackType

from apiserver import POD, ApiServer, Object
from waiting import await_that


def is_ready(pod: Object) -> bool:
    """Ready and not on its way out: the pods that a Service sends new requests to."""
    conditions = pod.get("status", {}).get("conditions", [])
    return "deletionTimestamp" not in pod["metadata"] and any(
        c["type"] == "Ready" and c["status"] == "True" for c in conditions
    )


def is_terminating(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def holds_its_slot(pod: Object) -> bool:
    """A pod that has ended gives its node's resources back, though its object may stay for a moment."""
    return pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")


def restarts(pod: Object) -> int:
    return sum(status["restartCount"] for status in pod.get("status", {}).get("containerStatuses", []))


@dataclass(frozen=True)
class Moment:
    """What was there after one event of the watch."""

    seconds: float
    """Since the history began."""
    ready: frozenset[str]
    terminating: frozenset[str]
    present: frozenset[str]
    holding: frozenset[str]
    """Pods for which their node's resources are set aside."""


@dataclass
class PodHistory:
    """Follows the pods of a selector from entering the `with` block to leaving it. Pods are named by UID."""

    api: ApiServer
    namespace: str
    selector: str
    moments: list[Moment] = field(default_factory=list)
    seen: dict[str, Object] = field(default_factory=dict)
    """Each pod's last known state, gone ones too."""
    failure: Exception | None = None

    def __enter__(self) -> PodHistory:
        self.began = time.monotonic()
        listing = self.api.listing(POD, self.namespace, selector=self.selector)
        self.pods = {pod["metadata"]["uid"]: pod for pod in listing["items"]}
        self.seen.update(self.pods)
        self.first = frozenset(self.pods)
        self.note()
        self.stopped = threading.Event()
        version = listing["metadata"]["resourceVersion"]
        self.thread = threading.Thread(target=self.follow, args=(version,), daemon=True)
        self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.catch_up()
        self.stopped.set()
        if self.failure and error is None:
            raise self.failure

    def catch_up(self) -> None:
        """On a busy machine the watch is behind: wait until it has told of every pod that is there now."""
        listing = self.api.listing(POD, self.namespace, selector=self.selector)
        there = {pod["metadata"]["uid"] for pod in listing["items"]}
        await_that(
            "the watch has told of every pod", lambda: bool(self.failure) or there <= self.seen.keys(), state=self.story
        )

    def follow(self, version: str) -> None:
        try:
            stream = self.api.events_from(POD, self.namespace, selector=self.selector, resource_version=version)
            for kind, pod in stream:
                if self.stopped.is_set():
                    return
                self.take(kind, pod)
        except Exception as error:
            if not self.stopped.is_set():
                self.failure = error

    def take(self, kind: str, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        self.seen[uid] = pod
        if kind == "DELETED":
            self.pods.pop(uid, None)
        else:
            self.pods[uid] = pod
        self.note()

    def note(self) -> None:
        pods = self.pods
        self.moments.append(
            Moment(
                seconds=time.monotonic() - self.began,
                ready=frozenset(uid for uid, pod in pods.items() if is_ready(pod)),
                terminating=frozenset(uid for uid, pod in pods.items() if is_terminating(pod)),
                present=frozenset(pods),
                holding=frozenset(uid for uid, pod in pods.items() if holds_its_slot(pod)),
            )
        )

    def fewest_ready(self) -> int:
        """The smallest number of pods that were Ready at once."""
        return min(len(moment.ready) for moment in self.moments)

    def most_slots_held(self) -> int:
        """The largest number of pods that held resources at once, terminating ones included."""
        return max(len(moment.holding) for moment in self.moments)

    def story(self) -> str:
        """One line a moment, for a failure's message."""
        names = {uid: pod["metadata"]["name"] for uid, pod in self.seen.items()}

        def words(uids: frozenset[str]) -> str:
            return ", ".join(sorted(names[uid] for uid in uids)) or "none"

        return "\n".join(
            f"  {m.seconds:7.2f} s  ready: {words(m.ready)}; terminating: {words(m.terminating)}; "
            f"starting: {words(m.present - m.ready - m.terminating)}"
            for m in self.moments
        )
