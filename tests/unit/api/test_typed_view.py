"""Reading objects, laying overrides over profiles, and setting conditions."""

from datetime import UTC, datetime, timedelta

import pytest
from builders import IMAGE, deployment

from specdecode_operator.api.conditions import get_condition, set_condition
from specdecode_operator.api.errors import FieldError, InvalidObject
from specdecode_operator.api.profiles import PROFILES, ProbeSettings, resolve
from specdecode_operator.api.status import Condition
from specdecode_operator.api.types import SpecDecodeDeployment, field_path

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LATER = NOW + timedelta(minutes=1)


def test_an_object_reads_back_with_its_defaults() -> None:
    seen = deployment("llama").replicas(4).parsed()
    assert (seen.name, seen.namespace, seen.generation) == ("llama", "serving", 1)
    assert seen.spec.engine.image == IMAGE
    assert seen.spec.drain.termination_grace_period_seconds == 150
    assert seen.spec.traffic is None
    assert seen.status.conditions == ()


def test_all_but_one_replica_stay_available_unless_the_spec_says_otherwise() -> None:
    assert deployment().replicas(4).spec().min_available_or_default == 3
    assert deployment().replicas(0).spec().min_available_or_default == 0
    assert deployment().replicas(4).set("spec.minAvailable", 2).spec().min_available_or_default == 2


def test_clients_send_the_models_name_unless_it_is_served_under_another() -> None:
    assert deployment().spec().model.serves_as == "demo-model"
    assert deployment().set("spec.model.servedName", "chat").spec().model.serves_as == "chat"


def test_an_unknown_field_is_left_to_the_api_server() -> None:
    """A newer CRD may hold fields that this operator does not know; reading must go on."""
    assert deployment().set("spec.futureField", 1).spec() == deployment().spec()


def test_an_object_past_its_schema_names_every_field_and_no_value() -> None:
    obj = deployment().env(TOKEN="s3cret-value").without("spec.model").set("spec.replicas", "s3cret-value").stored()
    obj["spec"]["engine"]["env"][0]["value"] = {"s3cret-value": 1}
    with pytest.raises(InvalidObject) as raised:
        SpecDecodeDeployment.parse(obj)
    assert {error.path for error in raised.value.errors} == {
        "spec.model",
        "spec.engine.env[0].value",
        "spec.replicas",
    }
    assert "s3cret-value" not in str(raised.value)
    assert "kubectl explain sdd.spec" in str(raised.value)


def test_an_error_reads_as_one_sentence() -> None:
    error = FieldError("spec.replicas", "-1", "0 to 1000", "raise it")
    assert str(error) == "spec.replicas: found -1; allowed: 0 to 1000; raise it."
    assert field_path("spec", ("env", 0, "name")) == "spec.env[0].name"


# --- Profiles ---------------------------------------------------------------------------------------------------------


def test_a_gb200_replica_is_one_tray_of_four_gpus_on_arm() -> None:
    profile = resolve(deployment().on("gb200").spec().accelerator)
    assert (profile.arch, profile.gpus_per_replica, profile.spans_nodes) == ("arm64", 4, False)
    assert profile.node_labels == {"nvidia.com/gpu.product": "NVIDIA-GB200"}


def test_overrides_win_and_leave_the_rest_of_the_profile() -> None:
    accelerator = (
        deployment()
        .on(
            "gb200",
            gpusPerNode=2,
            nodesPerReplica=3,
            nodeLabels={"pool": "a"},
            tolerations=[],
            runtimeClassName="",
            shmSize=1024,
            probes={"startup": {"failureThreshold": 360}},
        )
        .spec()
        .accelerator
    )
    profile = resolve(accelerator)
    assert profile.gpus_per_replica == 6
    assert profile.node_labels == {"pool": "a"}
    assert profile.tolerations == ()
    assert profile.runtime_class_name is None
    assert profile.shm_size == "1024"
    assert profile.startup == ProbeSettings(period_seconds=10, timeout_seconds=5, failure_threshold=360)
    assert profile.liveness == PROFILES["gb200"].liveness
    assert profile.arch == "arm64"


def test_status_shows_the_accelerator_as_it_was_understood() -> None:
    shown = resolve(deployment().on("h200", nodesPerReplica=2).spec().accelerator).status()
    assert (shown.name, shown.gpus_per_node, shown.nodes_per_replica, shown.gpus_per_replica) == ("h200", 8, 2, 16)


# --- Conditions -------------------------------------------------------------------------------------------------------


def ready(conditions: tuple[Condition, ...], status: str, message: str, now: datetime) -> tuple[Condition, ...]:
    return set_condition(conditions, type="Ready", status=status, reason="Why", message=message, generation=7, now=now)  # type: ignore[arg-type]


def test_a_transition_time_moves_only_with_its_status() -> None:
    first = ready((), "False", "starting", NOW)
    same = ready(first, "False", "still starting", LATER)
    turned = ready(same, "True", "serving", LATER)
    assert [c.last_transition_time for c in (*first, *same, *turned)] == [NOW, NOW, LATER]
    assert same[0].message == "still starting"
    assert turned[0].observed_generation == 7


def test_setting_the_same_again_changes_nothing() -> None:
    first = ready((), "True", "serving", NOW)
    assert ready(first, "True", "serving", LATER) == first


def test_setting_one_keeps_the_others_in_the_tables_order() -> None:
    conditions: tuple[Condition, ...] = ()
    for kind in ("Routable", "Progressing", "Ready"):
        conditions = set_condition(conditions, type=kind, status="True", reason="R", message="m", generation=1, now=NOW)
    assert [condition.type for condition in conditions] == ["Ready", "Progressing", "Routable"]
    assert get_condition(conditions, "Routable") == conditions[2]
    assert get_condition(conditions, "Absent") is None
