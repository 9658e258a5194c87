"""Whatever happens in whatever order, the operator serves as many as it promised and ends where the spec says.

A state machine over the pure model of `fleet`: the user edits and scales, controllers run when they like, pods crash,
the operator is killed after any write, its status is lost. What must hold is checked at each single write.
"""

from __future__ import annotations

import contextlib
import os
from functools import partial
from typing import Any

import promises
from builders import DIGEST, IMAGE, DeploymentBuilder, deployment
from fleet import Crashed, Fleet, Stale, finished, selected, terminating
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from specdecode_operator.api import names
from specdecode_operator.api.catalogue import CATALOGUE
from specdecode_operator.plan.testimony import Absent, Attestation, Garbled, Said, Silence

SEARCH = int(os.environ.get("INTERLEAVINGS", "0"))
"""Examples to look for with random seeds; without it, the same few at each run."""
IMAGES = [IMAGE, *(IMAGE.replace(DIGEST, f"sha256:{letter * 64}") for letter in "bcd")]
BAD = IMAGES[3]
TRUTH = CATALOGUE.of_line("0.33.0")
assert TRUTH is not None
LIES = [
    Absent(404),
    Garbled("noise"),
    Attestation(False, TRUTH.line, TRUTH.manifest_digest, TRUTH.states(()), ("vllm/x.py: edited",)),
    Attestation(True, TRUTH.line, "f" * 64, TRUTH.states(())),
    Attestation(True, TRUTH.line, TRUTH.manifest_digest, TRUTH.states(["telemetry"])),
]
SAID = [*LIES, Silence("slow"), Silence("slow")]


def keeping(builder: DeploymentBuilder, least: str) -> DeploymentBuilder:
    """With another spec.minAvailable."""
    replicas = builder.obj["spec"]["replicas"]
    known = {"all": replicas, "none": 0, "too many": replicas + 1}
    if least in known:
        return builder.set("spec.minAvailable", known[least])
    return builder.without("spec.minAvailable") if "minAvailable" in builder.obj["spec"] else builder


class Interleavings(RuleBasedStateMachine):
    """The operator among everybody else."""

    fleet: Fleet

    @initialize(
        replicas=st.integers(0, 4),
        least=st.sampled_from(["default", "all", "none"]),
        routed=st.sampled_from([True, True, False]),
        settled=st.sampled_from([True, True, False]),
    )
    def begin(self, replicas: int, least: str, routed: bool, settled: bool) -> None:
        start = keeping(deployment().replicas(replicas), least)
        self.fleet = Fleet.of(start.behind("edge") if routed else start)
        self.fleet.bad_images.add(BAD)
        self.fleet.before_write = partial(promises.check, self.fleet)
        if settled:
            self.fleet.settle()

    # --- The user -----------------------------------------------------------------------------------------------------

    @rule(image=st.sampled_from(IMAGES))
    def change_image(self, image: str) -> None:
        self.fleet.edit(lambda it: it.image(image))

    @rule(image=st.sampled_from(IMAGES[:3]), rounds=st.integers(1, 5), said=st.sampled_from([None, None, None, *SAID]))
    def roll(self, image: str, rounds: int, said: Said | None) -> None:
        self.engines_of_an_image_say(image, said)
        self.change_image(image)
        self.everybody_some_rounds(rounds)

    @rule(replicas=st.integers(0, 4))
    def scale(self, replicas: int) -> None:
        self.fleet.edit(lambda it: it.replicas(replicas))

    @rule(least=st.sampled_from(["default", "default", "all", "none", "too many"]))
    def keep_available(self, least: str) -> None:
        self.fleet.edit(lambda it: keeping(it, least))

    @rule(args=st.sampled_from([["--port", "1"], [], []]))
    def edit_badly_or_well(self, args: list[str]) -> None:
        self.fleet.edit(lambda it: it.args(*args))

    @rule(routed=st.booleans())
    def ask_for_traffic_or_not(self, routed: bool) -> None:
        has = "traffic" in self.fleet.obj["spec"]
        if routed != has:
            self.fleet.edit(lambda it: it.behind("edge") if routed else it.without("spec.traffic"))

    @rule()
    def relabel(self) -> None:
        self.fleet.edit(lambda it: it.set("spec.template.labels", {"team": "a"}))

    # --- The operator -------------------------------------------------------------------------------------------------

    @rule()
    def reconcile(self) -> None:
        with contextlib.suppress(Stale):
            self.fleet.reconcile()

    @rule(writes=st.integers(0, 6))
    def reconcile_and_die(self, writes: int) -> None:
        with contextlib.suppress(Crashed, Stale):
            self.fleet.reconcile(writes=writes)

    @rule()
    def lose_status(self) -> None:
        self.fleet.lose_status()

    # --- Everybody else -----------------------------------------------------------------------------------------------

    @rule()
    def replicaset_controller(self) -> None:
        self.fleet.replicaset_controller()

    @rule()
    def kubelet(self) -> None:
        self.fleet.kubelet()

    @rule()
    def endpoints_controller(self) -> None:
        self.fleet.endpoints_controller()

    @rule()
    def gateway(self) -> None:
        self.fleet.gateway()

    @rule(seconds=st.sampled_from([1, 4, 30]))
    def pass_time(self, seconds: int) -> None:
        self.fleet.pass_time(seconds)

    @rule()
    def everybody_else(self) -> None:
        self.fleet.others()

    @rule(rounds=st.sampled_from([1, 3, 9]))
    def everybody_some_rounds(self, rounds: int) -> None:
        for _ in range(rounds):
            with contextlib.suppress(Stale):
                self.fleet.round()

    @rule(up=st.booleans())
    def the_gateway_stops_or_goes_on(self, up: bool) -> None:
        self.fleet.gateway_up = up

    @precondition(lambda self: self.alive())
    @rule(data=st.data())
    def a_pod_crashes(self, data: st.DataObject) -> None:
        self.fleet.set_ready(self.one(data, self.alive()), False)

    @precondition(lambda self: self.alive())
    @rule(data=st.data())
    def an_engine_is_restarted_in_its_pod(self, data: st.DataObject) -> None:
        self.fleet.restart_container(self.one(data, self.alive()))

    @precondition(lambda self: self.alive())
    @rule(data=st.data())
    def a_pod_is_evicted(self, data: st.DataObject) -> None:
        self.fleet.evict(self.one(data, self.alive()))

    @precondition(lambda self: self.alive())
    @rule(data=st.data())
    def a_node_is_gone_with_its_pod(self, data: st.DataObject) -> None:
        del self.fleet.pods[self.one(data, self.alive())["metadata"]["uid"]]

    @rule(image=st.sampled_from(IMAGES), said=st.sampled_from([None, None, *SAID]))
    def engines_of_an_image_say(self, image: str, said: Said | None) -> None:
        if said is None:
            self.fleet.lies.pop(image, None)
        else:
            self.fleet.lies[image] = said

    @precondition(lambda self: self.alive())
    @rule(data=st.data(), said=st.sampled_from([*LIES, None]))
    def one_engine_says(self, data: st.DataObject, said: Said | None) -> None:
        uid = self.one(data, self.alive())["metadata"]["uid"]
        self.fleet.lies = {**{k: v for k, v in self.fleet.lies.items() if k != uid}, **({uid: said} if said else {})}

    @rule(heard=st.booleans())
    def an_operator_starts_that_has_heard_nothing_yet(self, heard: bool) -> None:
        self.fleet.unreachable = set() if heard else set(self.fleet.pods)

    @precondition(lambda self: self.deletable())
    @rule(data=st.data())
    def somebody_deletes_a_child(self, data: st.DataObject) -> None:
        self.delete(*data.draw(st.sampled_from(self.deletable())))

    @precondition(lambda self: self.deletable("ReplicaSet"))
    @rule(data=st.data())
    def somebody_deletes_a_workload(self, data: st.DataObject) -> None:
        self.delete(*data.draw(st.sampled_from(self.deletable("ReplicaSet"))))

    @rule()
    def somebody_deletes_all_frozen_revisions(self) -> None:
        for key in self.deletable("ControllerRevision"):
            self.delete(*key)

    @precondition(lambda self: self.alive())
    @rule(data=st.data())
    def somebody_deletes_a_pod(self, data: st.DataObject) -> None:
        self.fleet.terminate(self.one(data, self.alive()))

    @precondition(lambda self: self.alive())
    @rule(data=st.data(), image=st.sampled_from(IMAGES))
    def somebody_edits_a_pods_image(self, data: st.DataObject, image: str) -> None:
        self.one(data, self.alive())["spec"]["containers"][0]["image"] = image

    @precondition(lambda self: self.fleet.workloads())
    @rule(data=st.data(), replicas=st.integers(0, 6))
    def somebody_scales_a_workload(self, data: st.DataObject, replicas: int) -> None:
        name = data.draw(st.sampled_from([item["metadata"]["name"] for item in self.fleet.workloads()]))
        self.fleet.children[("ReplicaSet", name)]["spec"]["replicas"] = replicas

    @precondition(lambda self: self.fleet.route)
    @rule(weight=st.sampled_from([0, 9]))
    def somebody_edits_the_routes_weights(self, weight: int) -> None:
        route = self.fleet.route
        assert route
        for ref in route["spec"]["rules"][0].get("backendRefs", []):
            ref["weight"] = weight
        route["metadata"]["generation"] += 1

    @precondition(lambda self: self.deletable())
    @rule(data=st.data(), label=st.sampled_from([names.LABEL_REVISION, names.LABEL_APP_INSTANCE]))
    def somebody_edits_a_label(self, data: st.DataObject, label: str) -> None:
        child = self.fleet.children[data.draw(st.sampled_from(self.deletable()))]
        child["metadata"]["labels"][label] = "edited"

    @rule(slots=st.integers(0, 9), role=st.sampled_from(["stable", "candidate"]), data=st.data())
    def somebody_edits_the_status(self, slots: int, role: str, data: st.DataObject) -> None:
        frozen = [name.removeprefix("demo-") for _, name in self.deletable("ControllerRevision")]
        known = self.fleet.obj["status"].get("stable")
        if known and frozen:
            revision = data.draw(st.sampled_from(frozen))
            self.fleet.obj["status"][role] = {**known, "revision": revision, "slots": slots}

    def alive(self) -> list[str]:
        return sorted(uid for uid, pod in self.fleet.pods.items() if not terminating(pod) and not finished(pod))

    def one(self, data: st.DataObject, uids: list[str]) -> dict[str, Any]:
        return self.fleet.pods[data.draw(st.sampled_from(uids))]

    def deletable(self, *kinds: str) -> list[tuple[str, str]]:
        return sorted(key for key in self.fleet.children if (key[0] in kinds if kinds else key[0] != "EndpointSlice"))

    def delete(self, kind: str, name: str) -> None:
        gone = self.fleet.children.pop((kind, name))
        if kind == "ReplicaSet":  # garbage collection takes its pods
            for pod in self.fleet.pods_of(selected(gone)):
                self.fleet.terminate(pod)

    # --- The end ------------------------------------------------------------------------------------------------------

    def teardown(self) -> None:
        if not hasattr(self, "fleet"):
            return
        self.fleet.lies.clear()
        self.fleet.unreachable.clear()
        self.fleet.gateway_up = True
        for pod in self.fleet.pods.values():
            if promises.is_edited(self.fleet, pod):
                self.fleet.terminate(pod)
        self.fleet.settle()
        self.as_asked()
        self.fleet.edit(lambda it: it.image(IMAGES[1]).replicas(3).set("spec.minAvailable", 2).args())
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
        if fleet.condition("Progressing")["reason"] == names.REASON_HELD:
            assert spec.min_available_or_default == spec.replicas == fleet.serving()
            return
        assert fleet.serving() == spec.replicas
        assert all(promises.wanted(fleet, revision) for revision, count in fleet.replicas().items() if count)
        assert sum(fleet.routed().values()) == (spec.replicas if spec.traffic else 0)


Interleavings.TestCase.settings = settings(
    max_examples=SEARCH or 150,
    derandomize=not SEARCH,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.target, Phase.shrink],
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestInterleavings = Interleavings.TestCase
