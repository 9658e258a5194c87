"""Whatever happens in whatever order, the operator serves as many as it promised and ends where the spec says.

A state machine over the pure model of `fleet`: the user edits and scales, controllers run when they like, pods crash
and lie, people delete and edit what isn't theirs, the operator is killed after any write. `promises` are held against
each single write; once nothing more happens, the fleet must come to what the spec asks for and stay there.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import promises
from builders import DIGEST, IMAGE, DeploymentBuilder, deployment
from fleet import Crashed, Fleet, Stale, finished, selected, terminating
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from specdecode_operator.api import names
from specdecode_operator.api.catalogue import CATALOGUE
from specdecode_operator.plan.testimony import Absent, Attestation, Garbled, Said, Silence

Json = dict[str, Any]
SEARCH = int(os.environ.get("INTERLEAVINGS", "0"))
"""Examples to look for with random seeds; without it, the same few at each run."""
IMAGES = [IMAGE, *(IMAGE.replace(DIGEST, f"sha256:{letter * 64}") for letter in "bcde")]
BAD, REFUSED = IMAGES[3:]
"""Of these, the engine never starts, and the API server refuses the template."""
TRUTH = CATALOGUE.of_line("0.33.0")
assert TRUTH is not None
LIES = [
    Absent(404),
    Garbled("noise"),
    Attestation(False, TRUTH.line, TRUTH.manifest_digest, TRUTH.states(()), ("vllm/x.py: edited",)),
    Attestation(True, TRUTH.line, "f" * 64, TRUTH.states(())),
    Attestation(True, TRUTH.line, TRUTH.manifest_digest, TRUTH.states(["telemetry"])),
]
SAID = [*LIES, Silence("slow"), Silence("slow"), None]
LEAST = {"the default": None, "all": 0, "all but one": -1, "too many": 1}
"""spec.minAvailable, less spec.replicas."""

MIX = {
    "the_operator_reconciles": 6,
    "the_operator_dies": 3,
    "the_operator_starts_anew": 2,
    "all_is_well_for_a_while": 4,
    "everybody_acts": 5,
    "everybody_else_acts": 5,
    "one_of_the_others_acts": 3,
    "time_passes": 2,
    "the_gateway_stops": 1,
    "the_image_changes": 9,
    "it_is_scaled": 3,
    "what_must_be_available_changes": 3,
    "the_spec_is_edited_badly": 1,
    "traffic_comes_or_goes": 1,
    "engines_of_an_image_say": 4,
    "one_engine_says": 3,
    "a_pod_has_a_mishap": 5,
    "somebody_deletes_a_workload": 4,
    "somebody_deletes_a_child": 2,
    "somebody_deletes_what_is_frozen": 1,
    "somebody_scales_a_workload": 1,
    "somebody_edits_a_label": 1,
    "somebody_edits_the_route": 1,
    "somebody_adds_to_the_route": 1,
    "somebody_edits_the_status": 1,
}
"""How often each happens, beside the others."""


def restart_unasked(fleet: Fleet, pod: Json) -> None:
    """Another process runs in the pod; what is known is what the one before it said."""
    uid = pod["metadata"]["uid"]
    before = fleet.attestations().get(uid)
    fleet.restart_container(pod)
    fleet.set_ready(pod, True)
    if before is not None:
        fleet.stale[uid] = before


MISHAPS: dict[str, Callable[[Fleet, Json], object]] = {
    "it crashes": lambda fleet, pod: fleet.set_ready(pod, False),
    "its engine is restarted": Fleet.restart_container,
    "its engine is restarted, and not asked yet": restart_unasked,
    "it is evicted": Fleet.evict,
    "its node is gone": lambda fleet, pod: fleet.pods.pop(pod["metadata"]["uid"]),
    "somebody deletes it": Fleet.terminate,
    "somebody edits its image": lambda fleet, pod: pod["spec"]["containers"][0].update(image=BAD),
}


class Interleavings(RuleBasedStateMachine):
    """The operator among everybody else."""

    fleet: Fleet

    @initialize(
        replicas=st.sampled_from([0, 1, 2, 3, 3, 4]),
        least=st.sampled_from(["the default", "all"]),
        routed=st.sampled_from([True, True, False]),
        settled=st.sampled_from([True, True, True, False]),
        surge=st.sampled_from([0, 0, 0, 1, 2]),
    )
    def begin(self, replicas: int, least: str, routed: bool, settled: bool, surge: int) -> None:
        start = keeping(deployment().replicas(replicas), least).set("spec.rollout.surgeSlots", surge)
        self.fleet = Fleet.of(start.behind("edge") if routed else start)
        self.fleet.bad_images.add(BAD)
        self.fleet.refused_images.add(REFUSED)
        self.fleet.before_write = partial(promises.check, self.fleet)
        if settled:
            self.fleet.settle()

    @rule(event=st.sampled_from([event for event, often in MIX.items() for _ in range(often)]), data=st.data())
    def happens(self, event: str, data: st.DataObject) -> None:
        with contextlib.suppress(Crashed, Stale):
            getattr(self, event)(lambda *choices: data.draw(st.sampled_from(choices)))

    # --- The user -----------------------------------------------------------------------------------------------------

    def the_image_changes(self, one_of: Callable[..., Any]) -> None:
        others = [image for image in (*IMAGES[:3], *IMAGES) if image != self.fleet.obj["spec"]["engine"]["image"]]
        image = one_of(*others)
        self.fleet.edit(lambda it: it.image(image))

    def it_is_scaled(self, one_of: Callable[..., Any]) -> None:
        replicas, least = one_of(0, 1, 2, 3, 4), one_of(None, "the default", "all")
        self.fleet.edit(lambda it: it.replicas(replicas) if least is None else keeping(it.replicas(replicas), least))

    def what_must_be_available_changes(self, one_of: Callable[..., Any]) -> None:
        least = one_of("the default", "the default", *LEAST)
        self.fleet.edit(lambda it: keeping(it, least))

    def the_spec_is_edited_badly(self, one_of: Callable[..., Any]) -> None:
        self.fleet.edit(lambda it: it.args("--port", "1"))

    def traffic_comes_or_goes(self, one_of: Callable[..., Any]) -> None:
        had = "traffic" in self.fleet.obj["spec"]
        self.fleet.edit(lambda it: it.without("spec.traffic") if had else it.behind("edge"))

    # --- The operator -------------------------------------------------------------------------------------------------

    def the_operator_reconciles(self, one_of: Callable[..., Any]) -> None:
        self.fleet.reconcile()

    def the_operator_dies(self, one_of: Callable[..., Any]) -> None:
        self.fleet.reconcile(writes=one_of(*range(7)))

    def the_operator_starts_anew(self, one_of: Callable[..., Any]) -> None:
        """It has heard of no pod yet; the status may be lost too."""
        self.fleet.unreachable = set(self.fleet.pods)
        if one_of(False, True):
            self.fleet.lose_status()

    # --- Everybody else -----------------------------------------------------------------------------------------------

    def all_is_well_for_a_while(self, one_of: Callable[..., Any]) -> None:
        self.put_right()
        self.everybody_acts(one_of)

    def everybody_acts(self, one_of: Callable[..., Any]) -> None:
        for _ in range(one_of(1, 2, 4, 8)):
            self.fleet.round()

    def everybody_else_acts(self, one_of: Callable[..., Any]) -> None:
        self.fleet.others()

    def one_of_the_others_acts(self, one_of: Callable[..., Any]) -> None:
        one_of(
            self.fleet.replicaset_controller, self.fleet.kubelet, self.fleet.endpoints_controller, self.fleet.gateway
        )()

    def time_passes(self, one_of: Callable[..., Any]) -> None:
        self.fleet.pass_time(one_of(1, 4, 30))

    def the_gateway_stops(self, one_of: Callable[..., Any]) -> None:
        self.fleet.gateway_up = False

    def engines_of_an_image_say(self, one_of: Callable[..., Any]) -> None:
        self.say(one_of(*IMAGES[:3]), one_of(*SAID))

    def one_engine_says(self, one_of: Callable[..., Any]) -> None:
        if alive := self.alive():
            self.say(one_of(*alive), one_of(*LIES, None))

    def a_pod_has_a_mishap(self, one_of: Callable[..., Any]) -> None:
        if alive := self.alive():
            MISHAPS[one_of(*MISHAPS)](self.fleet, self.fleet.pods[one_of(*alive)])

    def somebody_deletes_a_workload(self, one_of: Callable[..., Any]) -> None:
        if workloads := self.deletable("ReplicaSet"):
            key = one_of(*workloads)
            one_of(self.delete, self.delete, self.orphan)(key)

    def somebody_deletes_a_child(self, one_of: Callable[..., Any]) -> None:
        if children := self.deletable():
            self.delete(one_of(*children))

    def somebody_deletes_what_is_frozen(self, one_of: Callable[..., Any]) -> None:
        for key in self.deletable("ControllerRevision"):
            self.delete(key)

    def somebody_scales_a_workload(self, one_of: Callable[..., Any]) -> None:
        if workloads := self.deletable("ReplicaSet"):
            self.fleet.children[one_of(*workloads)]["spec"]["replicas"] = one_of(*range(6))

    def somebody_edits_a_label(self, one_of: Callable[..., Any]) -> None:
        if children := self.deletable():
            labels = self.fleet.children[one_of(*children)]["metadata"]["labels"]
            labels[one_of(names.LABEL_REVISION, names.LABEL_APP_INSTANCE)] = "edited"

    def somebody_edits_the_route(self, one_of: Callable[..., Any]) -> None:
        if route := self.fleet.route:
            route["metadata"]["generation"] += 1
            for ref in route["spec"]["rules"][0].get("backendRefs", []):
                ref["weight"] = one_of(0, 9)

    def somebody_adds_to_the_route(self, one_of: Callable[..., Any]) -> None:
        status = self.fleet.obj["status"]
        known = {status[role]["revision"] for role in ("stable", "candidate") if role in status}
        if self.fleet.route and (absent := sorted(known - set(self.fleet.routed()))):
            self.fleet.smuggle(one_of(*absent))

    def somebody_edits_the_status(self, one_of: Callable[..., Any]) -> None:
        frozen = [name.rpartition("-")[2] for _, name in self.deletable("ControllerRevision")]
        known = self.fleet.obj["status"].get("stable")
        if known and frozen:
            role, revision, slots = one_of("stable", "candidate"), one_of(*frozen), one_of(*range(9))
            self.fleet.obj["status"][role] = {**known, "revision": revision, "slots": slots}

    def say(self, who: str, said: Said | None) -> None:
        self.fleet.lies.pop(who, None)
        if said is not None:
            self.fleet.lies[who] = said

    def alive(self) -> list[str]:
        return sorted(uid for uid, pod in self.fleet.pods.items() if not terminating(pod) and not finished(pod))

    def deletable(self, *kinds: str) -> list[tuple[str, str]]:
        return sorted(key for key in self.fleet.children if (key[0] in kinds if kinds else key[0] != "EndpointSlice"))

    def orphan(self, key: tuple[str, str]) -> None:
        self.fleet.orphan(self.fleet.children[key])

    def delete(self, key: tuple[str, str]) -> None:
        gone = self.fleet.children.pop(key)
        if key[0] == "ReplicaSet":  # garbage collection takes its pods
            for pod in self.fleet.pods_of(selected(gone)):
                self.fleet.terminate(pod)

    def put_right(self) -> None:
        """What only people can: engines that lie, a network or a gateway that is down, pods and a spec edited badly."""
        self.fleet.lies.clear()
        self.fleet.unreachable.clear()
        self.fleet.gateway_up = True
        self.fleet.edit(lambda it: it.args() if "args" in it.obj["spec"]["engine"] else it)
        for pod in self.fleet.pods.values():
            if promises.is_edited(self.fleet, pod):
                self.fleet.terminate(pod)

    # --- The end ------------------------------------------------------------------------------------------------------

    def teardown(self) -> None:
        if not hasattr(self, "fleet"):
            return
        self.put_right()
        self.fleet.settle()
        self.as_asked()
        self.fleet.edit(lambda it: it.image(IMAGES[1]).replicas(3).set("spec.minAvailable", 2))
        made = self.fleet.settle()
        status = self.fleet.obj["status"]
        assert status["stable"]["image"] == IMAGES[1]
        assert "candidate" not in status
        assert "run" not in status
        assert self.fleet.replicas() == {status["stable"]["revision"]: 3}
        assert self.fleet.serving() == 3
        assert made.events == ()
        assert self.fleet.condition("Progressing")["reason"] == names.REASON_COMPLETE
        assert self.fleet.condition("Attested")["reason"] == names.REASON_ATTESTED
        if self.fleet.route:
            assert self.fleet.routed() == {status["stable"]["revision"]: 3}

    def as_asked(self) -> None:
        """Once nothing more happens: what the spec asks for, if it can be had."""
        fleet, spec = self.fleet, self.fleet.parsed().spec
        if promises.is_refused(fleet) or spec.engine.image == BAD:
            return
        if spec.engine.image == REFUSED:
            self.as_before()
            return
        if fleet.condition("Progressing")["reason"] == names.REASON_HELD:
            assert spec.min_available_or_default == spec.replicas == fleet.serving()
            return
        assert fleet.serving() == spec.replicas
        assert all(promises.wanted(fleet, revision) for revision, count in fleet.replicas().items() if count)
        assert sum(fleet.routed().values()) == (spec.replicas if spec.traffic else 0)

    def as_before(self) -> None:
        """While the API server refuses what is asked for: what served before goes on, and scales."""
        status = self.fleet.obj["status"]
        if status["stable"]["image"] not in (BAD, REFUSED, "unknown"):
            assert self.fleet.serving() == self.fleet.parsed().spec.replicas, status


def keeping(builder: DeploymentBuilder, least: str) -> DeploymentBuilder:
    """With another spec.minAvailable."""
    beyond = LEAST[least]
    if beyond is None:
        return builder.without("spec.minAvailable") if "minAvailable" in builder.obj["spec"] else builder
    return builder.set("spec.minAvailable", max(builder.obj["spec"]["replicas"] + beyond, 0))


Interleavings.TestCase.settings = settings(
    max_examples=SEARCH or 50,
    derandomize=not SEARCH,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.target, Phase.shrink],
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestInterleavings = Interleavings.TestCase
