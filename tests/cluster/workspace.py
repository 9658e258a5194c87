"""One test's namespace: what a person would do in it, and what they would look at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from apiserver import CONTROLLER_REVISION, EVENT, POD, REPLICA_SET, SDD, ApiServer, Object
from podhistory import PodHistory, is_ready, is_terminating
from state import describe
from waiting import await_that, holds_for

from specdecode_operator.api import names

Found = TypeVar("Found")


def condition(sdd: Object, kind: str) -> Object:
    """The condition of a kind, an empty one with status Unknown if it is not there yet."""
    for one in sdd.get("status", {}).get("conditions", []):
        if one["type"] == kind:
            return dict(one)
    return {"type": kind, "status": "Unknown", "reason": "", "message": ""}


def current(sdd: Object) -> bool:
    """Has the operator planned this generation?"""
    return bool(sdd.get("status", {}).get("observedGeneration") == sdd["metadata"]["generation"])


def settled(sdd: Object) -> bool:
    """Every slot holds the revision of this generation and is Ready."""
    status = sdd.get("status", {})
    return (
        current(sdd)
        and condition(sdd, names.CONDITION_READY)["status"] == "True"
        and condition(sdd, names.CONDITION_PROGRESSING)["reason"] == names.REASON_COMPLETE
        and status.get("readyReplicas", 0) == sdd["spec"]["replicas"]
        and not status.get("candidate")
    )


def uids(pods: list[Object]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods}


@dataclass(frozen=True)
class Workspace:
    """A namespace of its own, with the waits that every test needs."""

    api: ApiServer
    name: str
    operator_log: Callable[[], str]

    # --- what is there ---
    def sdd(self, name: str) -> Object:
        found = self.api.get(SDD, name, self.name)
        assert found is not None, f"SpecDecodeDeployment {self.name}/{name} is not there"
        return found

    def pods(self, name: str | None = None) -> list[Object]:
        """The object's pods (of every object without a name) that are not on their way out."""
        selector = names.selector(name) if name else ""
        return [pod for pod in self.api.list(POD, self.name, selector=selector) if not is_terminating(pod)]

    def ready_pods(self, name: str) -> list[Object]:
        return [pod for pod in self.pods(name) if is_ready(pod)]

    def replica_sets(self, name: str) -> list[Object]:
        return self.api.list(REPLICA_SET, self.name, selector=names.selector(name))

    def revisions(self, name: str) -> list[Object]:
        return self.api.list(CONTROLLER_REVISION, self.name, selector=names.selector(name))

    def events(self, name: str) -> list[Object]:
        """The events about the object itself."""
        return [
            event
            for event in self.api.list(EVENT, self.name)
            if event["involvedObject"].get("name") == name and event["involvedObject"].get("kind") == names.KIND
        ]

    def state(self) -> str:
        return describe(self.api, self.name, self.operator_log())

    # --- what a person does ---
    def create(self, sdd: Object) -> Object:
        return self.api.create(SDD, sdd, self.name)

    def change(self, name: str, spec: Object) -> Object:
        """Merge-patch the spec."""
        return self.api.patch(SDD, name, {"spec": spec}, self.name)

    def delete(self, name: str) -> None:
        self.api.delete(SDD, name, self.name)

    # --- what they wait for ---
    def await_that(self, sentence: str, check: Callable[[], Found | None], *, seconds: float = 180) -> Found:
        return await_that(sentence, check, seconds=seconds, state=self.state)

    def holds_for(self, sentence: str, check: Callable[[], bool], *, seconds: float) -> None:
        holds_for(sentence, check, seconds=seconds, state=self.state)

    def await_settled(self, name: str, *, seconds: float = 240) -> Object:
        """Wait until all slots of the object's newest generation are Ready and nothing is on its way in."""

        def check() -> Object | None:
            sdd = self.sdd(name)
            return sdd if settled(sdd) else None

        return self.await_that(f"{name} settles: every slot Ready on its newest spec", check, seconds=seconds)

    def await_condition(
        self, name: str, kind: str, *, status: str, reason: str | None = None, contains: str = "", seconds: float = 180
    ) -> Object:
        """Wait for a condition of the newest generation; return it."""

        def check() -> Object | None:
            sdd = self.sdd(name)
            found = condition(sdd, kind)
            matches = (
                current(sdd)
                and found["status"] == status
                and (reason is None or found["reason"] == reason)
                and contains in found["message"]
            )
            assert matches, f"{kind} is {found['status']} {found['reason']}: {found['message']}"
            return found

        wanted = f"{kind}={status}" + (f" with reason {reason}" if reason else "")
        wanted += f" and a message with {contains!r}" if contains else ""
        return self.await_that(f"{name} has condition {wanted}", check, seconds=seconds)

    def await_gone(self, name: str, *, seconds: float = 180) -> None:
        """Wait until the object and every pod of it are gone."""

        def check() -> bool:
            left = [pod["metadata"]["name"] for pod in self.api.list(POD, self.name, selector=names.selector(name))]
            assert not left, f"still there: {', '.join(left)}"
            return self.api.get(SDD, name, self.name) is None

        self.await_that(f"{name} and all of its pods are gone", check, seconds=seconds)

    def history(self, name: str) -> PodHistory:
        return PodHistory(api=self.api, namespace=self.name, selector=names.selector(name))
