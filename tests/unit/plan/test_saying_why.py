"""What the object says when something is wrong: the condition's reason, and the pod's own words."""

from dataclasses import replace
from typing import Any

import pytest
from builders import OTHER_IMAGE, deployment
from fleet import Fleet, stamp

from specdecode_operator.api import names
from specdecode_operator.api.conditions import get_condition
from specdecode_operator.api.profiles import resolve
from specdecode_operator.api.status import Status
from specdecode_operator.plan.plan import plan
from specdecode_operator.plan.status import refused
from specdecode_operator.plan.validate import Allowed, field_errors

Json = dict[str, Any]


@pytest.fixture
def stuck() -> Fleet:
    """Two slots serve; the candidate's pod doesn't get ready."""
    fleet = Fleet.of(deployment().replicas(3).behind("edge"))
    fleet.settle()
    fleet.bad_images.add(OTHER_IMAGE)
    fleet.edit(lambda it: it.image(OTHER_IMAGE))
    fleet.settle()
    return fleet


def candidate_pod(fleet: Fleet) -> Json:
    return fleet.pods_of(fleet.obj["status"]["candidate"]["revision"])[0]


def container_state(**state: Any) -> Json:
    return {"name": "engine", "image": OTHER_IMAGE, "restartCount": 0, "ready": False, "state": {}, **state}


WAITING = {
    "image can't be pulled": (
        container_state(
            state={
                "waiting": {
                    "reason": "ImagePullBackOff",
                    "message": f'Back-off pulling image "{OTHER_IMAGE}": ErrImagePull: not found',
                }
            }
        ),
        names.REASON_IMAGE_PULL,
        "can't be pulled: not found",
    ),
    "secret is absent": (
        container_state(
            state={"waiting": {"reason": "CreateContainerConfigError", "message": 'secret "token" not found'}}
        ),
        names.REASON_CONFIG_MISSING,
        'secret "token" not found',
    ),
    "engine crashes at start": (
        container_state(
            restartCount=4,
            state={"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting failed container"}},
            lastState={"terminated": {"exitCode": 1, "reason": "Error", "message": "KeyError: 'kv_heads'\n"}},
        ),
        names.REASON_ENGINE_CRASHED,
        "exit code 1; its last words: KeyError: 'kv_heads'",
    ),
    "engine is killed for memory": (
        container_state(
            restartCount=1,
            state={"running": {}},
            lastState={"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
        ),
        names.REASON_ENGINE_CRASHED,
        "exit code 137 (OOMKilled) and left no message",
    ),
}


@pytest.mark.parametrize(("state", "reason", "words"), WAITING.values(), ids=WAITING)
def test_the_condition_repeats_what_the_pod_says(stuck: Fleet, state: Json, reason: str, words: str) -> None:
    candidate_pod(stuck)["status"]["containerStatuses"] = [state]
    stuck.reconcile()
    progressing = stuck.condition("Progressing")
    assert (progressing["status"], progressing["reason"]) == ("False", reason)
    assert words in progressing["message"]
    assert "2 of 3 slots serve" in progressing["message"]
    assert stuck.condition("Ready")["status"] == "True"


def test_a_back_off_that_counts_up_writes_nothing(stuck: Fleet) -> None:
    said = []
    for seconds in (20, 40, 80):
        state = container_state(
            restartCount=seconds,
            state={"waiting": {"reason": "CrashLoopBackOff", "message": f"back-off {seconds}s restarting"}},
            lastState={"terminated": {"exitCode": 1, "reason": "Error", "message": "boom"}},
        )
        candidate_pod(stuck)["status"]["containerStatuses"] = [state]
        stuck.pass_time(seconds)
        said.append(stuck.reconcile())
    assert said[0].status == said[1].status == said[2].status
    assert said[1].events == said[2].events == ()


def test_a_pull_error_says_the_same_between_back_offs(stuck: Fleet) -> None:
    said = set()
    for reason, message in (
        ("ErrImagePull", "failed to resolve reference: not found"),
        ("ImagePullBackOff", 'Back-off pulling image "x": ErrImagePull: failed to resolve reference: not found'),
    ):
        state = container_state(state={"waiting": {"reason": reason, "message": message}})
        candidate_pod(stuck)["status"]["containerStatuses"] = [state]
        stuck.reconcile()
        said.add(stuck.condition("Progressing")["message"])
    assert len(said) == 1


def test_a_pod_that_fits_no_node_is_unschedulable(stuck: Fleet) -> None:
    candidate_pod(stuck)["status"]["conditions"] = [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/18 nodes are available: 18 Insufficient nvidia.com/gpu.",
        }
    ]
    stuck.reconcile()
    assert stuck.condition("Progressing")["reason"] == names.REASON_UNSCHEDULABLE
    assert "Insufficient nvidia.com/gpu" in stuck.condition("Progressing")["message"]


def test_a_claim_that_nobody_made_is_missing_rather_than_a_node_for_it(stuck: Fleet) -> None:
    words = '0/19 nodes are available: persistentvolumeclaim "cache" not found. not found.'
    candidate_pod(stuck)["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words}
    ]
    stuck.reconcile()
    progressing = stuck.condition("Progressing")
    assert progressing["reason"] == names.REASON_CONFIG_MISSING
    assert "its namespace has no PersistentVolumeClaim 'cache'. " in progressing["message"]
    assert "not found" not in progressing["message"]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("\x1b[0;36m(EngineCore pid=7)\x1b[0;0m no memory", "its last words: (EngineCore pid=7) no memory."),
        ("\x1b]0;title\x07done", r"its last words: \x1b]0;title\x07done."),
        ("\u202egnp.exe \x00 \x9b2J", r"its last words: \u202egnp.exe \x00 \x9b2J."),
        ("Ladevorgang\r\n\t50 % …", "its last words: Ladevorgang 50 % …"),
    ],
)
def test_last_words_reach_no_terminal_as_commands(stuck: Fleet, written: str, shown: str) -> None:
    state = container_state(lastState={"terminated": {"exitCode": 1, "reason": "Error", "message": written}})
    candidate_pod(stuck)["status"]["containerStatuses"] = [{**state, "restartCount": 1}]
    made = stuck.reconcile()
    assert shown in stuck.condition("Progressing")["message"]
    assert any(shown in event.message for event in made.events)


def test_a_quota_is_said_in_the_api_servers_words(stuck: Fleet) -> None:
    pod = candidate_pod(stuck)
    revision = pod["metadata"]["labels"][names.LABEL_REVISION]
    del stuck.pods[pod["metadata"]["uid"]]
    stuck.children[("ReplicaSet", f"demo-{revision}")]["status"] = {
        "conditions": [
            {
                "type": "ReplicaFailure",
                "status": "True",
                "reason": "FailedCreate",
                "message": 'pods "demo-x-abc" is forbidden: exceeded quota: gpus, requested: 4, used: 8, limited: 8',
            }
        ]
    }
    stuck.reconcile()
    progressing = stuck.condition("Progressing")
    assert progressing["reason"] == names.REASON_PODS_REFUSED
    assert "exceeded quota: gpus" in progressing["message"]
    assert "abc" not in progressing["message"]


def test_an_invalid_edit_leaves_pods_and_names_every_field() -> None:
    fleet = Fleet.of(deployment().replicas(3).behind("edge"))
    fleet.settle()
    pods = set(fleet.pods)
    fleet.edit(lambda it: it.on("gb200").set("spec.parallelism", {"tensor": 8}).args("--port", "1", "--seed", "1"))
    fleet.settle()
    assert set(fleet.pods) == pods
    progressing = fleet.condition("Progressing")
    assert (progressing["status"], progressing["reason"]) == ("False", names.REASON_INVALID_SPEC)
    for part in ("spec.parallelism", "8 x 1 x 1 = 8", "at most 4", "spec.engine.args[0]", "--port"):
        assert part in progressing["message"]
    assert fleet.condition("Ready")["status"] == "True"


def test_drift_is_repaired_from_the_frozen_revision_while_the_spec_is_invalid() -> None:
    fleet = Fleet.of(deployment().replicas(2))
    fleet.settle()
    frozen = fleet.workloads()[0]["spec"]["template"]["spec"]["containers"][0]["image"]
    fleet.edit(lambda it: it.args("--port", "1").image(OTHER_IMAGE))
    fleet.settle()
    fleet.workloads()[0]["spec"]["template"]["spec"]["containers"][0]["image"] = "foreign"
    del fleet.children[("Service", "demo")]
    fleet.reconcile()
    assert fleet.workloads()[0]["spec"]["template"]["spec"]["containers"][0]["image"] == frozen
    assert ("Service", "demo") in fleet.children


def test_replicas_follow_while_the_spec_is_invalid() -> None:
    fleet = Fleet.of(deployment().replicas(2))
    fleet.settle()
    fleet.edit(lambda it: it.args("--port", "1").replicas(4))
    fleet.settle()
    assert fleet.serving() == 4


@pytest.mark.parametrize(
    ("replicas", "serves", "holds"),
    [(1, "The slot serves.", "holds the slot."), (2, "All 2 slots serve.", "holds all 2 slots.")],
)
def test_one_slot_is_not_spoken_of_as_many(replicas: int, serves: str, holds: str) -> None:
    fleet = Fleet.of(deployment().replicas(replicas))
    fleet.settle()
    assert fleet.condition("Ready")["message"] == serves
    assert fleet.condition("Progressing")["message"].endswith(holds)


def test_a_refused_spec_says_that_a_revision_goes_on_serving_only_where_it_does() -> None:
    fleet = Fleet.of(deployment().replicas(0))
    fleet.settle()
    fleet.edit(lambda it: it.replicas(4).set("spec.minAvailable", 9))
    fleet.reconcile()
    progressing = fleet.condition("Progressing")
    assert progressing["reason"] == names.REASON_INVALID_SPEC
    assert "none of its slots serves" in progressing["message"]
    fleet.settle()
    assert "goes on serving" in fleet.condition("Progressing")["message"]


def test_a_spec_that_was_never_valid_makes_nothing() -> None:
    fleet = Fleet.of(deployment().args("--port", "1"))
    made = fleet.reconcile()
    assert made.actions == ()
    assert fleet.condition("Ready")["reason"] == names.REASON_NO_REVISION
    assert fleet.condition("Progressing")["reason"] == names.REASON_INVALID_SPEC
    assert [event.type for event in made.events].count("Warning") == 1


def test_no_message_holds_a_value_of_an_argument_or_variable() -> None:
    fleet = Fleet.of(deployment().args("--api-key=hunter2", "--port=31337").env(TOKEN="hunter2"))
    made = fleet.reconcile()
    assert "hunter2" not in str(made.status) + str(made.events)
    assert "31337" not in str(made.status)


def test_replicas_that_span_nodes_say_which_api_is_missing() -> None:
    fleet = Fleet.of(deployment().on("h200", nodesPerReplica=2).set("spec.parallelism", {"tensor": 16}))
    fleet.capabilities = frozenset({"HTTPRoute"})
    fleet.reconcile()
    progressing = fleet.condition("Progressing")
    assert progressing["reason"] == names.REASON_CRD_MISSING
    assert "LeaderWorkerSet" in progressing["message"]
    assert fleet.workloads() == []
    assert fleet.planned().actions == ()


def test_replicas_that_span_nodes_come_from_a_leaderworkerset() -> None:
    fleet = Fleet.of(deployment().on("gb200", nodesPerReplica=2).set("spec.parallelism", {"tensor": 8}))
    fleet.reconcile()
    kinds = {kind for kind, _ in fleet.children}
    assert {"LeaderWorkerSet", "ComputeDomain"} <= kinds
    assert "ReplicaSet" not in kinds


def test_traffic_without_the_gateway_api_is_said_and_pods_run() -> None:
    fleet = Fleet.of(deployment().replicas(2).behind("edge"))
    fleet.capabilities = frozenset()
    fleet.settle()
    assert fleet.route is None
    assert fleet.serving() == 2
    assert fleet.condition("Routable")["reason"] == names.REASON_CRD_MISSING


def test_requests_do_not_come_by_a_service_of_somebody_else() -> None:
    fleet = Fleet.of(deployment())
    fleet.settle()
    routable = fleet.condition("Routable")
    assert (routable["status"], routable["reason"]) == ("True", names.REASON_NO_ROUTE)
    theirs = fleet.children.pop(("Service", "demo"))
    routable = get_condition(fleet.planned().status.conditions, names.CONDITION_ROUTABLE)
    assert routable is not None
    assert (routable.status, routable.reason) == ("False", names.REASON_NO_SERVICE)
    fleet.children["Service", "demo"] = theirs
    assert fleet.planned().status.conditions == fleet.parsed().status.conditions


def test_a_route_that_the_gateway_refuses_is_said_in_its_words() -> None:
    fleet = Fleet.of(deployment().replicas(1).behind("edge"))
    fleet.gateway_up = False
    fleet.settle()
    assert fleet.condition("Routable")["reason"] == names.REASON_ROUTE_PENDING
    assert fleet.route is not None
    fleet.route["status"] = {
        "parents": [
            {
                "parentRef": {"name": "edge", "namespace": "serving"},
                "conditions": [
                    {
                        "type": "Accepted",
                        "status": "False",
                        "reason": "NotAllowedByListeners",
                        "message": "no listener allows this namespace",
                        "observedGeneration": fleet.route["metadata"]["generation"],
                    }
                ],
            }
        ]
    }
    fleet.reconcile()
    assert fleet.condition("Routable")["reason"] == names.REASON_ROUTE_REFUSED
    assert "no listener allows this namespace" in fleet.condition("Routable")["message"]


def test_a_route_moved_to_a_gateway_that_says_nothing_is_pending() -> None:
    fleet = Fleet.of(deployment().replicas(1).behind("edge"))
    fleet.settle()
    fleet.gateway_up = False
    fleet.edit(lambda it: it.behind("nowhere"))
    fleet.settle()
    routable = fleet.condition("Routable")
    assert (routable["status"], routable["reason"]) == ("False", names.REASON_ROUTE_PENDING)
    assert "serving/nowhere to accept the route; if it doesn't exist, make it or correct" in routable["message"]


def test_a_gateway_that_has_answered_before_is_not_said_to_be_absent() -> None:
    fleet = Fleet.of(deployment().replicas(1).behind("edge"))
    fleet.settle()
    fleet.gateway_up = False
    fleet.edit(lambda it: it.behind("edge", "other.example"))
    fleet.settle()
    assert fleet.condition("Routable")["message"] == "Waits for gateway serving/edge to accept the route."


def foreign_route(host: str, age: int, path: str = "/") -> Json:
    return {
        "metadata": {
            "name": "other",
            "namespace": "elsewhere",
            "labels": {names.LABEL_NAME: "other"},
            "creationTimestamp": f"2025-01-0{age}T00:00:00Z",
        },
        "spec": {
            "parentRefs": [{"name": "edge", "namespace": "serving"}],
            "hostnames": [host],
            "rules": [{"matches": [{"path": {"type": "PathPrefix", "value": path}}]}],
        },
    }


def test_a_hostname_that_another_object_has_is_refused_by_name() -> None:
    fleet = Fleet.of(deployment().replicas(1).behind("edge", "llm.example.com"))
    fleet.foreign_routes = (foreign_route("llm.example.com", 1),)
    fleet.settle()
    assert fleet.route is None
    assert fleet.serving() == 1
    routable = fleet.condition("Routable")
    assert routable["reason"] == names.REASON_HOSTNAME_TAKEN
    for part in ("llm.example.com", "elsewhere/other", "spec.traffic.hostnames"):
        assert part in routable["message"]
    assert fleet.planned().requeue_after is not None


def test_claiming_somebody_elses_hostname_later_changes_nothing_for_the_requests_that_come_already() -> None:
    fleet = Fleet.of(deployment().replicas(1).behind("edge", "mine.example.com"))
    fleet.settle()
    fleet.foreign_routes = (foreign_route("theirs.example.com", 9),)
    fleet.edit(lambda it: it.behind("edge", "mine.example.com", "theirs.example.com"))
    fleet.settle()
    assert fleet.route is not None
    assert fleet.route["spec"]["hostnames"] == ["mine.example.com"]
    assert fleet.routed()
    assert fleet.condition("Routable")["reason"] == names.REASON_HOSTNAME_TAKEN


def test_the_same_hostname_on_another_path_is_free() -> None:
    fleet = Fleet.of(deployment().replicas(1).behind("edge", "llm.example.com"))
    fleet.foreign_routes = (foreign_route("llm.example.com", 1, path="/other"),)
    fleet.settle()
    assert fleet.route is not None
    assert fleet.condition("Routable")["status"] == "True"


def test_of_two_that_claim_at_once_the_older_route_keeps_it() -> None:
    fleet = Fleet.of(deployment().replicas(1).behind("edge", "llm.example.com"))
    fleet.settle()
    younger = foreign_route("llm.example.com", 1)
    younger["metadata"]["creationTimestamp"] = "2027-01-01T00:00:00Z"
    fleet.foreign_routes = (younger,)
    assert fleet.planned().actions == ()


def test_a_refused_child_keeps_the_time_of_its_condition() -> None:
    fleet = Fleet.of(deployment())
    status = fleet.reconcile().status
    said = [(names.REASON_CHILD_REFUSED, "Service demo is refused by the API server: quota")]
    first = refused(status, status, said, 1, fleet.now)
    fleet.pass_time(100)
    again = refused(status, first, said, 1, fleet.now)
    assert again == first
    condition = get_condition(again.conditions, names.CONDITION_PROGRESSING)
    assert condition
    assert condition.reason == names.REASON_CHILD_REFUSED
    assert "Service demo" in condition.message


def test_a_status_of_an_object_at_rest_does_not_move_with_the_clock() -> None:
    fleet = Fleet.of(deployment().replicas(2).behind("edge"))
    fleet.settle()
    before = Status.model_validate(fleet.obj["status"])
    fleet.pass_time(86400)
    assert fleet.planned().status == before


@pytest.mark.parametrize(
    ("path", "roots", "allowed"),
    [
        ("/models", (), False),
        ("/models", ("/models",), True),
        ("/models/a", ("/models",), True),
        ("/models/../etc", ("/models",), False),
        ("/modelsx", ("/models",), False),
    ],
)
def test_a_path_of_the_node_needs_the_charts_leave(path: str, roots: tuple[str, ...], allowed: bool) -> None:
    spec = deployment().set("spec.template.volumes", [{"name": "m", "hostPath": {"path": path}}]).spec()
    errors = field_errors(spec, resolve(spec.accelerator), Allowed(host_paths=roots))
    assert [error.path for error in errors] == ([] if allowed else ["spec.template.volumes[0].hostPath.path"])


def test_a_service_account_needs_the_charts_leave() -> None:
    spec = deployment().set("spec.template.serviceAccountName", "admin").spec()
    profile = resolve(spec.accelerator)
    assert [error.path for error in field_errors(spec, profile, Allowed())] == ["spec.template.serviceAccountName"]
    assert field_errors(spec, profile, Allowed(service_accounts=("admin",))) == ()


def test_min_available_above_replicas_names_both() -> None:
    spec = deployment().replicas(2).set("spec.minAvailable", 3).spec()
    (error,) = field_errors(spec, resolve(spec.accelerator), Allowed())
    assert error.path == "spec.minAvailable"
    assert "3 with 2 replicas" in error.found


def test_scaled_to_zero_an_object_may_keep_its_min_available() -> None:
    fleet = Fleet.of(deployment().replicas(2).set("spec.minAvailable", 1))
    fleet.settle()
    fleet.edit(lambda it: it.replicas(0))
    fleet.settle()
    assert fleet.pods == {}
    assert fleet.condition("Ready")["reason"] == names.REASON_SCALED_TO_ZERO
    assert fleet.condition("Progressing")["status"] == "True"


def test_all_that_is_wrong_is_said_at_once() -> None:
    spec = (
        deployment()
        .on("h200")
        .set("spec.parallelism", {"tensor": 16})
        .set("spec.minAvailable", 9)
        .set("spec.template.serviceAccountName", "admin")
        .args("--port", "1", "-tp", "2")
        .spec()
    )
    paths = [error.path for error in field_errors(spec, resolve(spec.accelerator), Allowed())]
    assert paths == [
        "spec.engine.args[0]",
        "spec.engine.args[2]",
        "spec.parallelism",
        "spec.minAvailable",
        "spec.template.serviceAccountName",
    ]


def test_a_mount_that_fails_is_said_in_the_events_words(stuck: Fleet) -> None:
    pod = candidate_pod(stuck)
    pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp(stuck.now)}]
    words = 'MountVolume.SetUp failed for volume "token": secret "token" not found'
    observed = replace(stuck.observed(), pod_warnings={pod["metadata"]["uid"]: words})
    made = plan(stuck.parsed(), observed, stuck.now)
    progressing = get_condition(made.status.conditions, names.CONDITION_PROGRESSING)
    assert progressing
    assert progressing.reason == names.REASON_CONFIG_MISSING
    assert 'secret "token" not found' in progressing.message


def pods_settle(fleet: Fleet) -> None:
    """Everybody but the gateway and the operator does its part."""
    fleet.replicaset_controller()
    fleet.kubelet()
    fleet.endpoints_controller()
    fleet.pass_time(10)


def test_it_is_routable_only_once_the_gateway_has_taken_the_route_that_names_a_revision() -> None:
    fleet = Fleet.of(deployment().replicas(1).behind("edge"))
    fleet.reconcile()
    fleet.gateway()
    pods_settle(fleet)
    for _ in range(3):
        fleet.reconcile()
        assert fleet.condition("Routable")["reason"] == names.REASON_ROUTE_PENDING
    fleet.gateway()
    fleet.reconcile()
    assert fleet.condition("Routable")["reason"] == names.REASON_ROUTE_ACCEPTED


def test_another_hostname_is_routable_only_once_the_gateway_has_taken_it() -> None:
    fleet = Fleet.of(deployment().replicas(1).behind("edge", "old.example.com"))
    fleet.settle()
    fleet.edit(lambda it: it.behind("edge", "new.example.com"))
    for _ in range(3):
        fleet.reconcile()
        assert fleet.condition("Routable")["reason"] == names.REASON_ROUTE_PENDING
    fleet.gateway()
    fleet.reconcile()
    assert fleet.condition("Routable")["reason"] == names.REASON_ROUTE_ACCEPTED


def test_it_stays_routable_while_shares_change() -> None:
    fleet = Fleet.of(deployment().replicas(2).behind("edge"))
    fleet.settle()
    fleet.edit(lambda it: it.image(OTHER_IMAGE))
    for _ in range(30):
        fleet.round()
        assert fleet.condition("Routable")["reason"] == names.REASON_ROUTE_ACCEPTED
    assert fleet.obj["status"]["stable"]["image"] == OTHER_IMAGE


def refused_route(reason: str) -> Fleet:
    edge = {"name": "edge", "namespace": "gateways", "sectionName": "https"}
    fleet = Fleet.of(deployment().set("spec.traffic", {"gateway": edge, "hostnames": ["a.example.com"]}))
    fleet.reconcile()
    assert fleet.route is not None
    said = {"type": "Accepted", "status": "False", "reason": reason, "message": "It isn't.", "observedGeneration": 1}
    fleet.route["status"] = {"parents": [{"parentRef": edge, "conditions": [said]}]}
    fleet.reconcile()
    return fleet


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("NoMatchingParent", ("spec.traffic.gateway.sectionName: found https", "listener of Gateway gateways/edge")),
        ("NotAllowedByListeners", ("spec.traffic.gateway: found gateways/edge", "namespace serving")),
        ("NoMatchingListenerHostname", ("spec.traffic.hostnames: found a.example.com", "gateways/edge")),
        ("Unheard", ()),
    ],
)
def test_a_refusal_names_the_field_that_the_gateways_reason_is_about(reason: str, words: tuple[str, ...]) -> None:
    routable = refused_route(reason).condition("Routable")
    assert (routable["status"], routable["reason"]) == ("False", names.REASON_ROUTE_REFUSED)
    for part in (f"Gateway gateways/edge refuses the route: Accepted=False ({reason}): It isn't.", *words):
        assert part in routable["message"]


@pytest.mark.parametrize(("section", "free"), [("internal", True), ("public", False), (None, False)])
def test_a_hostname_is_taken_only_on_the_same_listener(section: str | None, free: bool) -> None:
    edge = {"name": "edge", **({"sectionName": section} if section else {})}
    fleet = Fleet.of(deployment().set("spec.traffic", {"gateway": edge, "hostnames": ["llm.example.com"]}))
    other = foreign_route("llm.example.com", 1)
    other["spec"]["parentRefs"][0]["sectionName"] = "public"
    fleet.foreign_routes = (other,)
    fleet.settle()
    assert (fleet.condition("Routable")["reason"] == names.REASON_HOSTNAME_TAKEN) is not free
