"""What the operator promises, held against each of its writes before it is carried out.

Written from the design, over the model of `fleet` alone: it counts pods, ReplicaSets and what the gateway goes by, and
asks the planner nothing.
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from fleet import Fleet, attestation, finished, image_of, left_alone, selected, serves, stamp, terminating

from specdecode_operator.api import names
from specdecode_operator.plan.actions import Action
from specdecode_operator.plan.observe import process_of, revision_of
from specdecode_operator.plan.testimony import Silence

Json = dict[str, Any]
FROZEN = "ControllerRevision"


def check(fleet: Fleet, action: Action) -> None:
    """Raises AssertionError, saying which promise this write would break."""
    kind = action.manifest["kind"] if hasattr(action, "manifest") else action.kind
    name = action.manifest["metadata"]["name"] if hasattr(action, "manifest") else action.name
    live, after = fleet.children.get((kind, name)), fleet.outcome(action)
    if kind == "ReplicaSet":
        check_scale(fleet, live, after)
    elif kind == "HTTPRoute" and after is not None:
        check_weights(fleet, after)
    elif kind == "Pod" and after is not None:
        check_mark(fleet, fleet.pod_named(name) or after, after)
    elif kind == "Pod" and (pod := fleet.pod_named(name)) is not None:
        check_taken_down(fleet, pod)
    elif kind in ("Service", FROZEN) and after is None:
        check_removal(fleet, name.rpartition("-")[2])


def check_canary(fleet: Fleet, action: Action) -> None:
    """The same of a canary, whose slots go back too, several at once: capacity, GPUs, the route, and which pods end."""
    kind = action.manifest["kind"] if hasattr(action, "manifest") else action.kind
    name = action.manifest["metadata"]["name"] if hasattr(action, "manifest") else action.name
    live, after = fleet.children.get((kind, name)), fleet.outcome(action)
    if kind == "ReplicaSet":
        revision = selected(live or after or {})
        have, will = (each["spec"]["replicas"] if each else 0 for each in (live, after))
        if will < have:
            check_capacity(fleet, revision, have, will)
            check_last_slot(fleet, revision, will)
        if will > have:
            check_what_is_taken(fleet, revision, have, will, anew=live is None)
    elif kind == "HTTPRoute" and after is not None:
        check_weights(fleet, after)
    elif kind == "Pod" and after is None and (pod := fleet.pod_named(name)) is not None:
        check_restarted(fleet, pod)


def check_restarted(fleet: Fleet, pod: Json) -> None:
    """A pod ends that its workload makes anew: a stable one that served before the run, as young as a candidate's."""
    assert fleet.obj["spec"]["rollout"].get("baseline") == "fresh", "a pod is restarted, and the spec gives no reason"
    going_on = [each for each in runs(fleet) if each.get("ended") is None]
    assert going_on, "a pod is restarted without a run that goes on"
    run = going_on[-1]  # one that was never told to end, as the object went away from it, may be left before it
    assert pod["metadata"]["uid"] in run["before"], "a pod is restarted that is young already"
    assert revision_of(pod) == run["stable"], "a pod is restarted that isn't stable's"
    young = [each for each in fleet.pods_of(run["stable"]) if each["metadata"]["uid"] not in run["before"]]
    moved = sum(is_fit(fleet, each) for each in fleet.pods_of(run["candidate"]))
    assert len(young) < moved, f"{len(young)} stable slots are young already, for {moved} of the candidate's"
    assert not any(terminating(each) for each in fleet.pods.values()), "more than one slot at a time"
    floor = min(fleet.parsed().spec.min_available_or_default, fleet.parsed().spec.replicas)
    assert fleet.serving() - 1 >= floor, f"{fleet.serving()} serve, minAvailable {floor}"


def runs(fleet: Fleet) -> list[Json]:
    """Records of the object's runs."""
    maps = (item for (kind, _), item in fleet.children.items() if kind == "ConfigMap")
    return [json.loads(item["data"]["run.json"]) for item in maps if "run.json" in item["data"]]


def wanted(fleet: Fleet, revision: str) -> bool:
    """Whether the spec asks for that revision; nothing new is asked for by a spec that is refused."""
    return not is_refused(fleet) and fleet.images.get(revision) == fleet.obj["spec"]["engine"]["image"]


def is_refused(fleet: Fleet) -> bool:
    spec = fleet.parsed().spec
    return bool(spec.engine.args) or spec.min_available_or_default > spec.replicas


# --- Slots ------------------------------------------------------------------------------------------------------------


def check_scale(fleet: Fleet, live: Json | None, after: Json | None) -> None:
    revision = selected(live or after or {})
    have = live["spec"]["replicas"] if live else 0
    will = after["spec"]["replicas"] if after else 0
    if after is None:
        check_removal(fleet, revision)
    if will < have:
        check_what_is_given_up(fleet, revision, have, will)
    if will > have:
        check_what_is_taken(fleet, revision, have, will, anew=live is None)


def check_taken_down(fleet: Fleet, pod: Json) -> None:
    """A pod goes by itself only where no ReplicaSet can take it down."""
    revision = revision_of(pod)
    assert left_alone(pod), "a pod goes that garbage collection takes"
    assert revision not in fleet.replicas(), "a pod goes that its workload could give up"
    left = sum(not terminating(each) for each in fleet.pods_of(revision))
    check_what_is_given_up(fleet, revision, left, left - 1)


def check_what_is_given_up(fleet: Fleet, revision: str, have: int, will: int) -> None:
    spec, replicas = fleet.parsed().spec, fleet.replicas()
    others = occupied(fleet, but=revision)
    check_capacity(fleet, revision, have, will)
    too_many = sum(replicas.values()) + sum(left_behind(fleet).values()) > spec.replicas + surge(fleet)
    assert too_many or not (wanted(fleet, revision) or is_refused(fleet)), "a slot goes, and the spec gives no reason"
    if not too_many:
        check_target_before_next(fleet)
    assert have - will == 1 or not others or not spec.replicas, "more than one slot at a time"
    check_last_slot(fleet, revision, will)


def check_capacity(fleet: Fleet, revision: str, have: int, will: int) -> None:
    spec, before = fleet.parsed().spec, fleet.serving_for_good()
    ready = sum(serves(pod) for pod in fleet.pods_of(revision))
    left = before - min(ready, have) + min(ready, will)
    floor = min(spec.min_available_or_default, spec.replicas)
    assert left >= floor or left == before, f"{before} -> {left} serving, minAvailable {floor}"


def check_last_slot(fleet: Fleet, revision: str, will: int) -> None:
    if not will and fleet.parsed().spec.traffic:
        assert revision not in fleet.routed(), "the last slot drains while the route names its revision"
        assert revision not in fleet.programmed, "the last slot drains before the gateway took its revision out"


def check_target_before_next(fleet: Fleet) -> None:
    """What was moved before must serve, and get its share, before another slot moves."""
    for revision, count in fleet.replicas().items():
        if count and wanted(fleet, revision):
            fit = sum(is_fit(fleet, pod) for pod in fleet.pods_of(revision))
            assert fit >= count, f"another slot goes while {fit} of {count} that were moved have settled"
            assert "traffic" not in fleet.obj["spec"] or fleet.programmed.get(revision), "and gets no requests yet"


def check_what_is_taken(fleet: Fleet, revision: str, have: int, will: int, *, anew: bool) -> None:
    spec, others = fleet.parsed().spec, occupied(fleet, but=revision)
    if anew and will <= sum(not terminating(pod) for pod in fleet.pods_of(revision)):
        return  # It adopts what was left behind.
    own = have if anew or not others else max(have, len(fleet.pods_of(revision)))
    most = spec.replicas + (surge(fleet) if others else 0)
    assert others + own + will - have <= most, "a slot is taken whose GPUs aren't free: more of a surge than allowed"


def surge(fleet: Fleet) -> int:
    """Slots beyond replicas that may be held: none in a replacement where nothing but stable is asked for.

    A canary's slots of a surge stand until they are given back, and cost stable none meanwhile.
    """
    rollout = fleet.parsed().spec.rollout
    stable = (fleet.obj["status"].get("stable") or {}).get("revision")
    forward = any(wanted(fleet, revision) and revision != stable for revision in fleet.replicas())
    return rollout.surge_slots if forward or rollout.strategy == "Canary" else 0


def occupied(fleet: Fleet, *, but: str) -> int:
    """Slots that other revisions hold or are about to take."""
    replicas = fleet.replicas()
    return sum(max(replicas.get(each, 0), len(fleet.pods_of(each))) for each in known(fleet) if each != but)


def known(fleet: Fleet) -> set[str]:
    """Revisions that something is left of. Pods of others are nobody's."""
    frozen = (name.rpartition("-")[2] for kind, name in fleet.children if kind == FROZEN)
    return {*fleet.replicas(), *frozen, *left_behind(fleet)}


def left_behind(fleet: Fleet) -> Counter[str]:
    """Pods that stand without a workload, by revision."""
    replicas, found = fleet.replicas(), Counter[str]()
    for pod in fleet.pods.values():
        if left_alone(pod) and not finished(pod) and revision_of(pod) not in replicas:
            found[revision_of(pod)] += not terminating(pod)
    return found


def check_removal(fleet: Fleet, revision: str) -> None:
    assert revision not in known(fleet) or not fleet.pods_of(revision), f"revision {revision} needs it for its pods"
    assert not fleet.replicas().get(revision), f"revision {revision} asks for pods and needs it"
    assert revision not in fleet.routed(), f"the route names revision {revision}, which needs it"


# --- The route --------------------------------------------------------------------------------------------------------


def check_weights(fleet: Fleet, route: Json) -> None:
    prefix = route["metadata"]["name"] + "-"
    refs = route["spec"]["rules"][0].get("backendRefs", [])
    weights = {ref["name"].removeprefix(prefix): ref["weight"] for ref in refs}
    pods = {name: [pod for pod in fleet.pods_of(name) if serves(pod)] for name in weights}
    ready = {name: sum(not is_known_to_be_wrong(fleet, pod) for pod in pods[name]) for name in weights}
    right = [pod for each in pods.values() for pod in each if not is_wrong(fleet, pod)]
    for name in weights:
        if name not in fleet.routed() or name in fleet.smuggled:
            assert any(is_fit(fleet, pod) for pod in fleet.pods_of(name)), "a revision enters with no pod that is fit"
    assert all(weights.values()), "a weight of nothing"
    if len(weights) > 1 and right:
        assert all(ready.values()), "a weight points at nothing while another revision serves"
        assert all(weights[name] <= ready[name] for name in weights), "its pods get more than their share"


def is_fit(fleet: Fleet, pod: Json) -> bool:
    """Whether a revision may enter the route for this pod: it serves, has done so for long enough, and has attested."""
    traffic = fleet.parsed().spec.traffic
    settle = timedelta(seconds=traffic.settle_seconds if traffic else 0)
    return serves(pod) and is_listed(fleet, pod) and ready_since(pod) + settle <= fleet.now and is_attested(fleet, pod)


def is_listed(fleet: Fleet, pod: Json) -> bool:
    slices = (item for (kind, _), item in fleet.children.items() if kind == "EndpointSlice")
    ready = [end["targetRef"]["uid"] for each in slices for end in each["endpoints"] if end["conditions"]["ready"]]
    return pod["metadata"]["uid"] in ready


def ready_since(pod: Json) -> datetime:
    (ready,) = (each for each in pod["status"]["conditions"] if each["type"] == "Ready")
    return datetime.fromisoformat(ready["lastTransitionTime"])


# --- Pods -------------------------------------------------------------------------------------------------------------


def check_mark(fleet: Fleet, live: Json, after: Json) -> None:
    serves_label = after["metadata"]["labels"][names.LABEL_SERVES]
    if serves_label != live["metadata"]["labels"].get(names.LABEL_SERVES):
        if serves_label == "true":
            assert is_attested(fleet, live), "a pod that attests nothing is let back"
        else:
            assert is_wrong(fleet, live), "a pod is taken out that nothing is known against"
    noted = after["metadata"].get("annotations", {}).get(names.ANNOTATION_ATTESTED)
    if noted and noted != live["metadata"].get("annotations", {}).get(names.ANNOTATION_ATTESTED):
        assert noted == process_of(live), "a pod is noted for another process than runs"
        assert is_attested(fleet, live), "a pod is noted as attested that isn't"


def is_attested(fleet: Fleet, pod: Json) -> bool:
    """Whether its process has ever said what its revision expects, and says nothing else now."""
    if is_wrong(fleet, pod) or not process_of(pod):
        return False
    noted = pod["metadata"].get("annotations", {}).get(names.ANNOTATION_ATTESTED)
    unheard = isinstance(fleet.said_by(pod), Silence | None)
    return noted == process_of(pod) if unheard else True


def is_wrong(fleet: Fleet, pod: Json) -> bool:
    """Whether it has another image than its revision, or says something else than the truth."""
    said = fleet.said_by(pod)
    lies = not isinstance(said, Silence | None) and said != attestation(pod)
    return lies or is_edited(fleet, pod)


def is_known_to_be_wrong(fleet: Fleet, pod: Json) -> bool:
    """Whether the operator could tell: what to expect of the pod was frozen before this plan was made."""
    revision = pod["metadata"]["labels"][names.LABEL_REVISION]
    frozen = fleet.children.get((FROZEN, names.revision_child(fleet.obj["metadata"]["name"], revision)))
    return is_wrong(fleet, pod) and frozen is not None and frozen["metadata"]["creationTimestamp"] < stamp(fleet.now)


def is_edited(fleet: Fleet, pod: Json) -> bool:
    """Whether somebody gave it another image while it runs."""
    return image_of(pod) != fleet.images.get(pod["metadata"]["labels"][names.LABEL_REVISION])
