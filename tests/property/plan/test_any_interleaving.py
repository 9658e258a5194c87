"""Whatever happens in whatever order, the operator serves as many as it promised and ends where the spec says.

A state machine over the pure model of `fleet`: the user edits and scales, controllers run when they like, pods crash,
the operator is killed after any write, its status is lost. What must hold is checked at each single write.
"""

from __future__ import annotations

import contextlib
from typing import Any

from builders import IMAGE, deployment
from fleet import Crashed, Fleet, Stale, attestation, selected, serves, terminating
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from specdecode_operator.api import names
from specdecode_operator.plan.actions import Action, Apply
from specdecode_operator.plan.observe import process_of
from specdecode_operator.plan.testimony import Absent, Garbled, Said, Silence

IMAGES = [IMAGE, *(IMAGE.replace("engine@", f"engine-{letter}@") for letter in "bcd")]
BAD = IMAGES[3]


class Interleavings(RuleBasedStateMachine):
    """The operator among everybody else."""

    fleet: Fleet

    @initialize(replicas=st.integers(0, 4), routed=st.booleans(), settled=st.booleans())
    def begin(self, replicas: int, routed: bool, settled: bool) -> None:
        start = deployment().replicas(replicas)
        self.fleet = Fleet.of(start.behind("edge") if routed else start)
        self.fleet.bad_images.add(BAD)
        self.fleet.before_write = self.check_write
        if settled:
            self.fleet.settle()

    # --- What is promised at each write -------------------------------------------------------------------------------

    def check_write(self, action: Action) -> None:
        if not isinstance(action, Apply):
            return
        if action.manifest["kind"] == "ReplicaSet":
            self.check_scale(action.manifest)
        if action.manifest["kind"] == "HTTPRoute":
            self.check_route(action.manifest)

    def check_scale(self, manifest: dict[str, Any]) -> None:
        revision = manifest["metadata"]["labels"][names.LABEL_REVISION]
        fleet, wanted = self.fleet, manifest["spec"]["replicas"]
        replicas = fleet.replicas()
        before, have = fleet.serving_for_good(), replicas.get(revision, 0)
        ready = sum(serves(pod) for pod in fleet.pods_of(revision))
        after = before - min(ready, have) + min(ready, wanted)
        spec = fleet.parsed().spec
        floor = min(spec.min_available_or_default, spec.replicas)
        alone = all(not count and not fleet.pods_of(other) for other, count in replicas.items() if other != revision)
        if after < before and not alone:
            assert after >= floor, f"{before} -> {after} serving, minAvailable {floor}"
        if wanted > have and not alone:
            taken = sum(max(replicas[other], len(fleet.pods_of(other))) for other in replicas if other != revision)
            assert taken + wanted <= max(spec.replicas, taken + have), "more slots than replicas: a surge"
        if wanted == 0 and have and spec.traffic:
            assert revision not in fleet.routed(), "the last slot drains while the route names its revision"

    def check_route(self, manifest: dict[str, Any]) -> None:
        fleet = self.fleet
        prefix = manifest["metadata"]["name"] + "-"
        named = [ref["name"].removeprefix(prefix) for ref in manifest["spec"]["rules"][0].get("backendRefs", [])]
        ready = {name: sum(serves(pod) for pod in fleet.pods_of(name)) for name in named}
        entering = [name for name in named if name not in fleet.routed()]
        assert all(ready[name] for name in entering), "a revision enters the route without a ready pod"
        for name in entering:
            assert any(self.is_attested(pod) for pod in fleet.pods_of(name)), "it enters with nothing attested"
        assert len(named) < 2 or all(ready.values()), "a weight points at nothing while another revision serves"

    def is_attested(self, pod: dict[str, Any]) -> bool:
        """Whether its process has ever said what its revision expects, and says nothing else now."""
        uid = pod["metadata"]["uid"]
        answer = self.fleet.attestations().get(uid)
        noted = pod["metadata"].get("annotations", {}).get(names.ANNOTATION_ATTESTED)
        unheard = answer is None or isinstance(answer.said, Silence)
        return serves(pod) and (noted == process_of(pod) if unheard else answer.said == attestation(pod))

    # --- The user -----------------------------------------------------------------------------------------------------

    @rule(image=st.sampled_from(IMAGES))
    def change_image(self, image: str) -> None:
        self.fleet.edit(lambda it: it.image(image))

    @rule(replicas=st.integers(0, 4))
    def scale(self, replicas: int) -> None:
        self.fleet.edit(lambda it: it.replicas(replicas))

    @rule(least=st.integers(0, 4))
    def set_min_available(self, least: int) -> None:
        self.fleet.edit(lambda it: it.set("spec.minAvailable", least))

    @rule(args=st.sampled_from([["--port", "1"], []]))
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
    def everybody_once(self) -> None:
        with contextlib.suppress(Stale):
            self.fleet.round()

    @precondition(lambda self: any(not terminating(pod) for pod in self.fleet.pods.values()))
    @rule(data=st.data())
    def a_pod_crashes(self, data: st.DataObject) -> None:
        alive = sorted(uid for uid, pod in self.fleet.pods.items() if not terminating(pod))
        self.fleet.set_ready(self.fleet.pods[data.draw(st.sampled_from(alive))], False)

    @precondition(lambda self: any(not terminating(pod) for pod in self.fleet.pods.values()))
    @rule(data=st.data())
    def an_engine_is_restarted_in_its_pod(self, data: st.DataObject) -> None:
        alive = sorted(uid for uid, pod in self.fleet.pods.items() if not terminating(pod))
        self.fleet.restart_container(self.fleet.pods[data.draw(st.sampled_from(alive))])

    @rule(image=st.sampled_from(IMAGES), said=st.sampled_from([Absent(404), Silence("slow"), Garbled("noise"), None]))
    def engines_of_an_image_say(self, image: str, said: Said | None) -> None:
        if said is None:
            self.fleet.lies.pop(image, None)
        else:
            self.fleet.lies[image] = said

    @rule(heard=st.booleans())
    def an_operator_starts_that_has_heard_nothing_yet(self, heard: bool) -> None:
        self.fleet.unreachable = set() if heard else set(self.fleet.pods)

    @precondition(lambda self: self.deletable())
    @rule(data=st.data())
    def somebody_deletes_a_child(self, data: st.DataObject) -> None:
        kind, name = data.draw(st.sampled_from(self.deletable()))
        gone = self.fleet.children.pop((kind, name))
        if kind == "ReplicaSet":  # garbage collection takes its pods
            for pod in self.fleet.pods_of(selected(gone)):
                self.fleet.terminate(pod)

    @precondition(lambda self: self.deletable())
    @rule(data=st.data(), label=st.sampled_from([names.LABEL_REVISION, names.LABEL_APP_INSTANCE]))
    def somebody_edits_a_label(self, data: st.DataObject, label: str) -> None:
        child = self.fleet.children[data.draw(st.sampled_from(self.deletable()))]
        child["metadata"]["labels"][label] = "edited"

    @rule(slots=st.integers(0, 9), role=st.sampled_from(["stable", "candidate"]), data=st.data())
    def somebody_edits_the_status(self, slots: int, role: str, data: st.DataObject) -> None:
        frozen = [name.removeprefix("demo-") for kind, name in self.deletable() if kind == "ControllerRevision"]
        known = self.fleet.obj["status"].get("stable")
        if known and frozen:
            revision = data.draw(st.sampled_from(frozen))
            self.fleet.obj["status"][role] = {**known, "revision": revision, "slots": slots}

    def deletable(self) -> list[tuple[str, str]]:
        return sorted(key for key in self.fleet.children if key[0] != "EndpointSlice")

    # --- The end ------------------------------------------------------------------------------------------------------

    @invariant()
    def pods_have_an_owner(self) -> None:
        assert all(pod["metadata"]["labels"].get(names.LABEL_REVISION) for pod in self.fleet.pods.values())

    def teardown(self) -> None:
        if not hasattr(self, "fleet"):
            return
        self.fleet.lies.clear()
        self.fleet.unreachable.clear()
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


Interleavings.TestCase.settings = settings(
    max_examples=60,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.target, Phase.shrink],
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestInterleavings = Interleavings.TestCase
