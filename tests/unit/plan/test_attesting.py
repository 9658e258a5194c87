"""A pod that isn't what its revision says gets no requests; a revision enters the route only with pods that are."""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from builders import IMAGE, OTHER_IMAGE, deployment
from fleet import Crashed, Fleet, attestation, image_of, is_ready, terminating

from specdecode_operator.api import names
from specdecode_operator.api.catalogue import CATALOGUE, Catalogue
from specdecode_operator.plan.actions import Patch
from specdecode_operator.plan.observe import leads, process_of
from specdecode_operator.plan.plan import plan
from specdecode_operator.plan.slots import NEXT_TO_GO
from specdecode_operator.plan.testimony import Absent, Answer, Attestation, Garbled, Said, Silence

Json = dict[str, Any]
TRUTH = CATALOGUE.of_line("0.33.0")
assert TRUTH is not None
DIGEST, STATES = TRUTH.manifest_digest, TRUTH.states(())
MIRRORED = IMAGE.replace("registry.example.com", "mirror.example.net")


@pytest.fixture
def serving() -> Fleet:
    """Three slots of the first revision, attested and at rest."""
    fleet = Fleet.of(deployment().replicas(3).behind("edge"))
    fleet.settle()
    return fleet


@pytest.fixture
def replacing(serving: Fleet) -> Fleet:
    """The same, asked for another image, whose engines say what `lies` has for it."""
    serving.edit(lambda it: it.image(OTHER_IMAGE))
    return serving


def labels(fleet: Fleet) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["metadata"]["labels"][names.LABEL_SERVES] for pod in fleet.pods.values()}


def condition(fleet: Fleet, kind: str = "Attested") -> tuple[str, str]:
    found = fleet.condition(kind)
    return found["status"], found["reason"]


def message(fleet: Fleet, kind: str = "Attested") -> str:
    found: str = fleet.condition(kind)["message"]
    return found


def cost(pod: Json) -> int:
    return int(pod["metadata"].get("annotations", {}).get(names.ANNOTATION_DELETION_COST, 0))


def a_pod(fleet: Fleet) -> Json:
    return next(iter(fleet.pods.values()))


# --- What it takes to be trusted --------------------------------------------------------------------------------------


def test_pods_that_attest_what_their_revision_says_serve_and_it_is_said_with_series_and_manifest(
    serving: Fleet,
) -> None:
    assert condition(serving) == ("True", "FilesAttested")
    assert "series v0.33.0" in message(serving)
    assert DIGEST[:12] in message(serving)
    assert serving.routed() == {serving.obj["status"]["stable"]["revision"]: 3}


def test_what_is_switched_off_is_said_with_it() -> None:
    fleet = Fleet.of(deployment().switched_off("splitkv-decode"))
    fleet.settle()
    assert condition(fleet) == ("True", "FilesAttested")
    assert "splitkv-decode switched off" in message(fleet)


def test_operators_that_die_after_each_write_come_to_the_end_though_every_other_has_heard_no_pod_yet(
    replacing: Fleet,
) -> None:
    first = replacing.obj["status"]["stable"]["revision"]
    entered = False
    for life in range(120):
        replacing.replicaset_controller()
        replacing.kubelet()
        replacing.endpoints_controller()
        replacing.gateway()
        replacing.pass_time(10)
        replacing.unreachable = set(replacing.pods) if life % 2 else set()
        with contextlib.suppress(Crashed):
            replacing.reconcile(writes=1)
        candidates = set(replacing.routed()) - {first}
        assert candidates or not entered, f"life {life} took it out again"
        entered = bool(candidates)
    assert replacing.routed() == dict.fromkeys(candidates, 3)


LIES: dict[str, tuple[Said, str]] = {
    "another manifest": (Attestation(True, "0.33.0", "f" * 64, STATES), f"expects {DIGEST[:12]}"),
    "another line": (Attestation(True, "0.30.0", DIGEST, STATES), "runs engine 0.30.0, its revision says 0.33.0"),
    "its own check failed": (
        Attestation(False, "0.33.0", DIGEST, STATES, ("vllm/x.py: edited",)),
        "finds its own files wrong: vllm/x.py: edited",
    ),
    "a switch that the spec doesn't have": (
        Attestation(True, "0.33.0", DIGEST, {**STATES, "splitkv-decode": "disabled"}),
        "splitkv-decode is disabled, not active",
    ),
    "an optimization that is missing": (
        Attestation(True, "0.33.0", DIGEST, {name: state for name, state in STATES.items() if name != "telemetry"}),
        "telemetry is absent, not active",
    ),
    "no package of ours": (Absent(404), "set spec.engine.build to stock"),
    "nonsense": (Garbled("something that isn't JSON"), "something that isn't JSON"),
}


@pytest.mark.parametrize(("said", "words"), LIES.values(), ids=LIES)
def test_a_revision_whose_pod_differs_never_enters_the_route_and_the_replacement_stops(
    replacing: Fleet, said: Said, words: str
) -> None:
    first = replacing.obj["status"]["stable"]["revision"]
    replacing.lies[OTHER_IMAGE] = said
    routed = set()
    for _ in range(12):
        replacing.round()
        routed |= set(replacing.routed())
    assert routed == {first}
    assert replacing.serving() == 2, "the others go on"
    wrong = [pod for pod in replacing.pods.values() if image_of(pod) == OTHER_IMAGE]
    assert len(wrong) == 1, "no second slot is spent on it"
    assert labels(replacing)[wrong[0]["metadata"]["name"]] == "false"
    assert condition(replacing) == ("False", "AttestationDiffers")
    assert words in message(replacing)
    assert wrong[0]["metadata"]["name"] in message(replacing)
    assert condition(replacing, "Progressing") == ("False", "NotAttested")
    assert replacing.obj["status"]["readyReplicas"] == 2


def test_a_first_revision_that_differs_serves_nothing() -> None:
    fleet = Fleet.of(deployment().replicas(2).behind("edge"))
    fleet.lies[IMAGE] = Absent(404)
    fleet.settle()
    assert fleet.routed() == {}
    assert set(labels(fleet).values()) == {"false"}
    assert condition(fleet, "Ready")[0] == "False"


def test_a_wrong_revision_is_left_behind_as_soon_as_the_spec_is_put_right(replacing: Fleet) -> None:
    replacing.lies[OTHER_IMAGE] = Absent(404)
    replacing.settle()
    replacing.edit(lambda it: it.image(IMAGE))
    replacing.settle()
    assert {image_of(pod) for pod in replacing.pods.values()} == {IMAGE}
    assert condition(replacing) == ("True", "FilesAttested")
    assert replacing.serving() == 3


def test_a_stock_image_where_the_spec_says_stock_serves_and_nothing_is_claimed() -> None:
    fleet = Fleet.of(deployment().stock().replicas(2).behind("edge"))
    fleet.settle()
    assert sum(fleet.routed().values()) == 2
    assert condition(fleet) == ("Unknown", "StockEngine")
    assert condition(fleet, "Progressing") == ("True", "Complete")


# --- Pods that serve already ------------------------------------------------------------------------------------------


def test_a_pod_that_differs_later_is_taken_out_alone_and_let_back_once_it_attests(serving: Fleet) -> None:
    pod = a_pod(serving)
    serving.restart_container(pod)
    serving.unreachable.add(pod["metadata"]["uid"])
    serving.set_ready(pod, True)
    serving.reconcile()
    assert set(labels(serving).values()) == {"true"}, "nobody has said anything against it yet"
    serving.unreachable.clear()
    serving.lies[IMAGE] = Attestation(True, "0.33.0", "f" * 64, STATES)
    others = {uid for uid in serving.pods if uid != pod["metadata"]["uid"]}
    serving.unreachable |= others
    made = serving.reconcile()
    assert [name for name, serves in labels(serving).items() if serves == "false"] == [pod["metadata"]["name"]]
    assert any(event.reason == "PodTakenOut" and event.type == "Warning" for event in made.events)
    assert made.status.ready_replicas == 2, "already in the plan that takes it out"
    assert serving.condition("Ready")["reason"] == names.REASON_MIN_AVAILABLE
    assert not serving.reconcile().actions, "said once"
    serving.lies.clear()
    serving.settle()
    assert set(labels(serving).values()) == {"true"}
    assert condition(serving) == ("True", "FilesAttested")


@pytest.mark.parametrize("label", ["false", "maybe", None])
@pytest.mark.parametrize("stock", [True, False])
def test_a_pod_whose_label_was_edited_or_removed_by_hand_is_let_back(stock: bool, label: str | None) -> None:
    start = deployment().replicas(3).behind("edge")
    fleet = Fleet.of(start.stock() if stock else start)
    fleet.settle()
    edited = a_pod(fleet)["metadata"]["labels"]
    del edited[names.LABEL_SERVES]
    edited.update({names.LABEL_SERVES: label} if label else {})
    assert fleet.serving() == 2
    fleet.settle()
    assert fleet.serving() == 3


@pytest.mark.parametrize(("index", "leader"), [("0", True), ("1", False), (None, False)])
def test_of_a_replica_over_nodes_only_the_leader_is_to_serve(index: str | None, leader: bool) -> None:
    group = {names.LWS_GROUP_KEY: "g", names.LWS_GROUP_INDEX: "0"}
    assert leads({**group, names.LWS_WORKER_INDEX: index} if index else group) == leader


def test_of_a_revision_that_gives_a_slot_up_the_pod_that_was_taken_out_goes_first(serving: Fleet) -> None:
    pod = a_pod(serving)
    pod["spec"]["containers"][0]["image"] = OTHER_IMAGE
    serving.reconcile()
    serving.edit(lambda it: it.replicas(2))
    serving.reconcile()
    serving.replicaset_controller()
    assert [each["metadata"]["uid"] for each in serving.pods.values() if terminating(each)] == [pod["metadata"]["uid"]]


def test_what_is_taken_out_goes_before_a_pod_that_is_only_marked(replacing: Fleet) -> None:
    while not (marked := [pod for pod in replacing.pods.values() if cost(pod) == NEXT_TO_GO]):
        replacing.reconcile()
    wrong = next(pod for pod in replacing.pods.values() if pod is not marked[0])
    wrong["spec"]["containers"][0]["image"] = MIRRORED.replace("0123", "3210")
    replacing.reconcile()
    assert cost(wrong) < cost(marked[0])


def test_no_slot_is_given_up_in_the_plan_that_takes_a_pod_out(serving: Fleet) -> None:
    a_pod(serving)["spec"]["containers"][0]["image"] = OTHER_IMAGE
    serving.edit(lambda it: it.replicas(2))
    made = serving.reconcile()
    assert list(serving.replicas().values()) == [3], "the ReplicaSet controller has yet to see which pod goes"
    assert made.requeue_after is not None
    assert made.requeue_after.total_seconds() <= 1
    serving.reconcile()
    assert list(serving.replicas().values()) == [2]


def test_a_pod_that_was_taken_out_stays_out_while_its_frozen_revision_is_gone(serving: Fleet) -> None:
    pod = a_pod(serving)
    pod["spec"]["containers"][0]["image"] = OTHER_IMAGE
    serving.reconcile()
    for key in [key for key in serving.children if key[0] == "ControllerRevision"]:
        del serving.children[key]
    serving.reconcile()
    assert labels(serving)[pod["metadata"]["name"]] == "false"


def test_a_pod_whose_image_was_edited_is_taken_out_also_where_nothing_is_attested() -> None:
    fleet = Fleet.of(deployment().stock().replicas(2))
    fleet.settle()
    pod = a_pod(fleet)
    pod["spec"]["containers"][0]["image"] = OTHER_IMAGE
    fleet.reconcile()
    assert labels(fleet)[pod["metadata"]["name"]] == "false"
    assert condition(fleet) == ("False", "AttestationDiffers")
    assert "somebody edited the pod" in message(fleet)
    pod["spec"]["containers"][0]["image"] = IMAGE
    fleet.settle()
    assert set(labels(fleet).values()) == {"true"}


def test_a_mirrors_name_for_the_same_digest_is_the_same_image(serving: Fleet) -> None:
    a_pod(serving)["spec"]["containers"][0]["image"] = MIRRORED
    assert not serving.reconcile().actions
    assert condition(serving) == ("True", "FilesAttested")


def test_a_node_that_names_another_digest_proves_nothing_and_nothing_is_claimed(serving: Fleet) -> None:
    """Some runtimes name the platform's manifest of an image for several platforms."""
    a_pod(serving)["status"]["containerStatuses"][0]["imageID"] = OTHER_IMAGE
    serving.settle()
    assert condition(serving) == ("Unknown", "ImageUnconfirmed")
    assert set(labels(serving).values()) == {"true"}
    a_pod(serving)["status"]["containerStatuses"][0]["imageID"] = "sha256:" + "1" * 64
    serving.settle()
    assert condition(serving) == ("True", "FilesAttested"), "the digest of a configuration is no manifest's"


# --- Pods that say nothing --------------------------------------------------------------------------------------------


def test_a_revision_enters_the_route_only_once_its_pod_was_asked(replacing: Fleet) -> None:
    first = replacing.obj["status"]["stable"]["revision"]
    replacing.unreachable.add(OTHER_IMAGE)
    for _ in range(6):
        replacing.round()
        assert set(replacing.routed()) == {first}
    assert sum(image_of(pod) == OTHER_IMAGE for pod in replacing.pods.values()) == 1
    replacing.unreachable.clear()
    replacing.settle()
    assert set(replacing.routed()) == {replacing.obj["status"]["stable"]["revision"]} != {first}


def test_an_operator_that_has_just_started_and_heard_nothing_yet_writes_nothing(serving: Fleet) -> None:
    serving.unreachable = set(serving.pods)
    before = dict(serving.obj["status"])
    made = serving.reconcile()
    assert made.actions == ()
    assert made.events == ()
    assert serving.obj["status"] == before


def test_an_operator_that_cannot_reach_pods_any_more_takes_nothing_back(serving: Fleet) -> None:
    before = dict(serving.obj["status"])
    serving.lies[IMAGE] = Silence("nothing within 5 s")
    assert serving.reconcile().actions == ()
    assert serving.obj["status"] == before


def test_a_ready_pod_that_never_answers_is_named_and_gets_requests_only_where_its_revision_has_them(
    serving: Fleet,
) -> None:
    pod = a_pod(serving)
    serving.restart_container(pod)
    serving.set_ready(pod, True)
    serving.lies[IMAGE] = Silence("nothing within 5 s")
    serving.settle()
    assert condition(serving) == ("Unknown", "NoAnswer")
    assert pod["metadata"]["name"] in message(serving)
    assert "NetworkPolicy" in message(serving)
    assert set(labels(serving).values()) == {"true"}
    assert sum(serving.routed().values()) == 3


def test_a_pod_that_is_still_loading_and_refuses_connections_is_no_trouble() -> None:
    fleet = Fleet.of(deployment().replicas(2))
    fleet.bad_images.add(IMAGE)
    fleet.lies[IMAGE] = Silence("the connection is refused")
    fleet.settle()
    for pod in fleet.pods.values():
        fleet.restart_container(pod)
    fleet.reconcile()
    assert condition(fleet) == ("Unknown", "AttestationPending")
    assert condition(fleet, "Progressing") == ("True", "Starting")


def test_another_process_in_the_same_pod_has_to_attest_anew(serving: Fleet) -> None:
    pod = a_pod(serving)
    noted = pod["metadata"]["annotations"][names.ANNOTATION_ATTESTED]
    serving.restart_container(pod)
    serving.settle()
    assert pod["metadata"]["annotations"][names.ANNOTATION_ATTESTED] != noted


@pytest.mark.parametrize("said", [attestation, lambda _: Absent(404)], ids=["the truth", "a lie"])
def test_what_the_process_before_said_counts_neither_for_nor_against_the_next(
    serving: Fleet, said: Callable[[Json], Said]
) -> None:
    pod = a_pod(serving)
    before = process_of(pod)
    serving.restart_container(pod)
    serving.set_ready(pod, True)
    stale = {pod["metadata"]["uid"]: Answer(before, said(pod))}
    made = plan(serving.parsed(), replace(serving.observed(), attestations=stale), serving.now)
    assert not [action for action in made.actions if isinstance(action, Patch) and action.kind == "Pod"]


def test_a_pod_that_is_ready_and_has_yet_to_be_asked_changes_no_word(serving: Fleet) -> None:
    pod = a_pod(serving)
    before = serving.condition("Attested")
    serving.restart_container(pod)
    serving.unreachable.add(pod["metadata"]["uid"])
    serving.settle()
    assert is_ready(pod)
    assert serving.condition("Attested") == before


def test_at_rest_nothing_is_written_however_often_pods_are_asked(serving: Fleet) -> None:
    before = dict(serving.obj["status"])
    for _ in range(5):
        serving.pass_time(60)
        made = serving.reconcile()
        assert (made.actions, made.events) == ((), ())
    assert serving.obj["status"] == before


def test_a_pod_is_noted_as_attested_by_its_uid_so_that_a_namesake_is_not(serving: Fleet) -> None:
    pod = a_pod(serving)
    serving.restart_container(pod)
    serving.set_ready(pod, True)
    (note,) = [each for each in serving.planned().actions if isinstance(each, Patch) and each.kind == "Pod"]
    assert note.patch["metadata"]["uid"] == pod["metadata"]["uid"]


# --- Switches and lines -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("before", "after"), [("0.30.0", "0.33.0"), ("0.33.0", "0.30.0")])
def test_the_engine_line_of_a_serving_object_changes_slot_by_slot(before: str, after: str) -> None:
    fleet = Fleet.of(deployment().replicas(3).behind("edge").set("spec.engine.version", before))
    fleet.settle()
    fleet.edit(lambda it: it.set("spec.engine.version", after).image(OTHER_IMAGE))
    fewest = 3
    for _ in range(40):
        fleet.round()
        fewest = min(fewest, fleet.serving())
    assert fewest == 2
    assert fleet.obj["status"]["stable"]["engineVersion"] == after
    assert "candidate" not in fleet.obj["status"]
    assert condition(fleet) == ("True", "FilesAttested")
    assert f"series v{after}" in message(fleet)


def test_while_two_lines_serve_side_by_side_each_attests_its_own_series(replacing: Fleet) -> None:
    replacing.edit(lambda it: it.set("spec.engine.version", "0.30.0"))
    said = set()
    for _ in range(40):
        replacing.round()
        said.add(condition(replacing))
        if {image_of(pod) for pod in replacing.pods.values() if is_ready(pod)} == {IMAGE, OTHER_IMAGE}:
            said.add(("both", str("v0.30.0" in message(replacing) and "v0.33.0" in message(replacing))))
    assert ("both", "True") in said
    assert said <= {("True", "FilesAttested"), ("both", "True"), ("both", "False")}


def test_a_switch_makes_a_new_revision_also_of_one_that_an_older_operator_made(serving: Fleet) -> None:
    """The form of before is blind to the field: the old revision must not pass for the new spec's."""
    (frozen,) = (item for (kind, _), item in serving.children.items() if kind == "ControllerRevision")
    frozen["data"]["formVersion"] = 1
    del frozen["data"]["expected"], frozen["data"]["stock"]
    first = serving.obj["status"]["stable"]["revision"]
    serving.settle()
    assert serving.obj["status"]["stable"]["revision"] == first, "the upgrade alone changes nothing"
    assert condition(serving) == ("Unknown", "NothingExpected")
    serving.edit(lambda it: it.switched_off("telemetry"))
    serving.settle()
    assert serving.obj["status"]["stable"]["revision"] != first
    assert condition(serving) == ("True", "FilesAttested")


def test_a_newer_catalogue_restarts_nothing_and_doubts_nothing_that_serves(serving: Fleet) -> None:
    newer = Catalogue(tuple(replace(each, manifest_digest="e" * 64) for each in CATALOGUE.series))
    made = plan(serving.parsed(), serving.observed(), serving.now, catalogue=newer)
    assert made.actions == ()
    assert made.status == serving.parsed().status


@pytest.mark.parametrize(
    ("line", "names_off", "expected"),
    [
        ("0.33.0", ["split-kv"], ("disable[0]", "found split-kv", "correct or remove it")),
        ("0.33.0", ["telemetry", "skip-draft-rebuild"], ("disable[1]", "found skip-draft-rebuild", "built in")),
        ("0.30.0", ["skip-draft-rebuild"], None),
    ],
)
def test_a_switch_that_would_do_nothing_is_refused_and_what_serves_stays(
    serving: Fleet, line: str, names_off: list[str], expected: tuple[str, ...] | None
) -> None:
    first = serving.obj["status"]["stable"]["revision"]
    serving.edit(lambda it: it.set("spec.engine.version", line).switched_off(*names_off))
    serving.settle()
    if expected is None:
        assert serving.obj["status"]["stable"]["revision"] != first
        return
    assert serving.obj["status"]["stable"]["revision"] == first
    assert condition(serving, "Progressing") == ("False", "InvalidSpec")
    assert all(words in message(serving, "Progressing") for words in expected)
    assert "splitkv-decode, telemetry, uniform-mamba-metadata" in message(serving, "Progressing")


def test_a_line_without_a_series_is_refused_for_patched_engines_only() -> None:
    none = Catalogue(())
    patched, stock = (Fleet.of(each) for each in (deployment(), deployment().stock()))
    refused = plan(patched.parsed(), patched.observed(), patched.now, catalogue=none)
    assert refused.actions == ()
    progressing = next(each for each in refused.status.conditions if each.type == "Progressing")
    assert "spec.engine.version" in progressing.message
    assert plan(stock.parsed(), stock.observed(), stock.now, catalogue=none).actions


def test_the_truth_of_the_model_is_the_catalogues() -> None:
    """Otherwise every test here would only show that two mistakes agree."""
    fleet = Fleet.of(deployment())
    fleet.settle()
    assert attestation(a_pod(fleet)) == Attestation(True, "0.33.0", DIGEST, STATES)
