"""The pod that a spec and a profile come to."""

from typing import Any

import pytest
from builders import COMMIT, IMAGE, DeploymentBuilder, deployment

from specdecode_operator.api import names
from specdecode_operator.api.catalogue import CATALOGUE
from specdecode_operator.api.profiles import resolve
from specdecode_operator.build import pod


def template(builder: DeploymentBuilder) -> dict[str, Any]:
    spec = builder.spec()
    return pod.template(spec, resolve(spec.accelerator), CATALOGUE.carried_by(spec.engine))


def pod_spec(builder: DeploymentBuilder) -> dict[str, Any]:
    result: dict[str, Any] = template(builder)["spec"]
    return result


def container(builder: DeploymentBuilder) -> dict[str, Any]:
    result: dict[str, Any] = pod_spec(builder)["containers"][0]
    return result


def env(builder: DeploymentBuilder) -> dict[str, Any]:
    return {variable["name"]: variable.get("value") for variable in container(builder)["env"]}


ONE_TRAY = deployment().on("gb200")
TWO_TRAYS = deployment().on("gb200", nodesPerReplica=2).set("spec.parallelism.tensor", 8)


# --- Life of a pod ----------------------------------------------------------------------------------------------------


def test_the_engine_may_take_three_quarters_of_an_hour_to_load() -> None:
    startup = container(ONE_TRAY)["startupProbe"]
    assert startup["httpGet"]["path"] == "/health"
    assert startup["periodSeconds"] * startup["failureThreshold"] == 45 * 60


def test_ready_means_that_the_model_is_loaded_and_the_files_are_checked() -> None:
    probe = container(ONE_TRAY)["readinessProbe"]
    assert (probe["httpGet"]["path"], probe["periodSeconds"], probe["failureThreshold"]) == ("/specdecode/ready", 5, 3)
    probe = container(ONE_TRAY)["livenessProbe"]
    assert (probe["httpGet"]["path"], probe["periodSeconds"], probe["failureThreshold"]) == ("/health", 30, 3)


def test_a_stock_engine_is_ready_when_it_lists_its_model_since_it_has_no_path_of_ours() -> None:
    assert container(ONE_TRAY.stock())["readinessProbe"]["httpGet"]["path"] == "/v1/models"
    assert not any(name.startswith(names.ENV_PREFIX) for name in env(ONE_TRAY.stock()))


@pytest.mark.parametrize("line", ["0.33.0", "0.30.0"])
def test_an_engine_is_told_the_manifest_of_its_line(line: str) -> None:
    series = CATALOGUE.of_line(line)
    assert series is not None
    assert env(ONE_TRAY.set("spec.engine.version", line))["SPECDECODE_EXPECT_MANIFEST"] == series.manifest_digest


def test_an_engine_is_told_what_is_switched_off_and_nothing_if_nothing_is() -> None:
    assert env(ONE_TRAY.switched_off("telemetry", "splitkv-decode"))["SPECDECODE_DISABLE"] == "splitkv-decode,telemetry"
    assert "SPECDECODE_DISABLE" not in env(ONE_TRAY)


def test_a_follower_checks_the_same_files_as_its_leader() -> None:
    spec = TWO_TRAYS.switched_off("telemetry").spec()
    follower = pod.worker_template(spec, resolve(spec.accelerator), CATALOGUE.carried_by(spec.engine))
    told = {each["name"]: each.get("value") for each in follower["spec"]["containers"][0]["env"]}
    assert told == env(TWO_TRAYS.switched_off("telemetry"))


def test_a_pod_that_goes_waits_for_the_routers_then_for_its_streams() -> None:
    drain = {"preStopSeconds": 7, "shutdownTimeoutSeconds": 60, "terminationGracePeriodSeconds": 80}
    builder = deployment().set("spec.drain", drain)
    assert container(builder)["lifecycle"] == {"preStop": {"sleep": {"seconds": 7}}}
    assert pod_spec(builder)["terminationGracePeriodSeconds"] == 80
    args = container(builder)["args"]
    assert args[args.index("--shutdown-timeout") + 1] == "60"


def test_no_wait_means_no_hook_since_older_clusters_refuse_a_sleep_of_zero() -> None:
    assert "lifecycle" not in container(deployment().set("spec.drain.preStopSeconds", 0))


# --- Security ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["cpu", "h200", "gb200"])
def test_a_one_node_pod_meets_the_restricted_standard(profile: str) -> None:
    builder = deployment().on(profile)
    spec = pod_spec(builder)
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] != 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    security = container(builder)["securityContext"]
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert not {"hostNetwork", "hostIPC", "hostPID"} & set(spec)


def test_only_a_cpu_engine_has_a_read_only_root_since_the_gpu_hook_writes_there() -> None:
    assert container(deployment())["securityContext"]["readOnlyRootFilesystem"] is True
    assert container(ONE_TRAY)["securityContext"]["readOnlyRootFilesystem"] is False


def test_rdma_between_trays_may_pin_memory_and_nothing_else() -> None:
    assert container(TWO_TRAYS)["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["IPC_LOCK"]}


# --- Where it runs ----------------------------------------------------------------------------------------------------


def test_a_gb200_pod_goes_to_a_tray_and_takes_it_whole() -> None:
    spec = pod_spec(ONE_TRAY)
    assert spec["nodeSelector"] == {"kubernetes.io/arch": "arm64", "nvidia.com/gpu.product": "NVIDIA-GB200"}
    assert {toleration["key"] for toleration in spec["tolerations"]} == {"nvidia.com/gpu", "kubernetes.io/arch"}
    assert spec["runtimeClassName"] == "nvidia"
    resources = container(ONE_TRAY)["resources"]
    assert resources["limits"]["nvidia.com/gpu"] == resources["requests"]["nvidia.com/gpu"] == "4"


def test_a_cpu_pod_asks_for_no_gpu_and_goes_anywhere() -> None:
    spec = pod_spec(deployment())
    assert not {"nodeSelector", "tolerations", "runtimeClassName"} & set(spec)
    assert names.GPU not in container(deployment())["resources"]["requests"]


def test_the_templates_selector_and_tolerations_add_to_the_profiles() -> None:
    extra = {
        "nodeSelector": {"pool": "blue"},
        "tolerations": [{"key": "blue", "operator": "Exists"}, {"key": "nvidia.com/gpu", "operator": "Exists"}],
    }
    spec = pod_spec(ONE_TRAY.set("spec.template", extra))
    assert spec["nodeSelector"]["pool"] == "blue"
    assert spec["nodeSelector"]["kubernetes.io/arch"] == "arm64"
    assert [toleration["key"] for toleration in spec["tolerations"]].count("blue") == 1


def test_the_same_toleration_twice_is_written_once() -> None:
    same = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    spec = pod_spec(ONE_TRAY.set("spec.template.tolerations", [same]))
    assert spec["tolerations"].count(same) == 1


def test_a_share_of_a_node_asks_for_its_share_of_cores_and_memory() -> None:
    whole = container(deployment().on("h200"))["resources"]["requests"]
    half = container(deployment().on("h200", gpusPerNode=4))["resources"]["requests"]
    assert (whole["cpu"], whole["memory"]) == ("32", "256Gi")
    assert (half["cpu"], half["memory"]) == ("16", "128Gi")


def test_a_limit_below_the_profiles_request_lowers_the_request() -> None:
    resources = container(deployment().set("spec.template.resources.limits", {"memory": "1Gi"}))["resources"]
    assert resources["requests"]["memory"] == resources["limits"]["memory"] == "1Gi"


def test_a_request_above_the_profiles_limit_lifts_the_limit() -> None:
    resources = container(deployment().set("spec.template.resources.requests", {"memory": "64Gi"}))["resources"]
    assert resources["requests"]["memory"] == "64Gi"
    assert "limits" not in resources


def test_the_users_requests_and_limits_both_hold() -> None:
    given = {"requests": {"cpu": "10m", "memory": "48Mi"}, "limits": {"memory": "256Mi", "rdma/ib": 4}}
    resources = container(deployment().set("spec.template.resources", given))["resources"]
    assert resources == {
        "requests": {"cpu": "10m", "memory": "48Mi", "rdma/ib": "4"},
        "limits": {"memory": "256Mi", "rdma/ib": "4"},
    }


# --- What it is given -------------------------------------------------------------------------------------------------


def test_the_users_variable_wins_over_the_profiles_and_is_written_once() -> None:
    builder = ONE_TRAY.env(NCCL_NVLS_ENABLE="0", EXTRA="1")
    variables = [variable["name"] for variable in container(builder)["env"]]
    assert env(builder)["NCCL_NVLS_ENABLE"] == "0"
    assert len(variables) == len(set(variables))
    assert [name for name in variables if not name.startswith(names.ENV_PREFIX)][-2:] == ["NCCL_NVLS_ENABLE", "EXTRA"]


def test_a_variable_from_a_secret_stays_a_reference() -> None:
    source = {"secretKeyRef": {"name": "hub", "key": "token"}}
    builder = deployment().set("spec.engine.env", [{"name": "HF_TOKEN", "valueFrom": source}])
    assert {"name": "HF_TOKEN", "valueFrom": source} in container(builder)["env"]


def test_only_an_engine_that_loads_from_the_hub_may_reach_for_it() -> None:
    assert env(deployment().serving("pvc://weights/a"))["HF_HUB_OFFLINE"] == "1"
    assert "HF_HUB_OFFLINE" not in env(deployment().serving("hf://org/name", COMMIT))
    assert "HF_HUB_OFFLINE" not in env(deployment().drafting("eagle3", "hf://org/draft"))


def test_nvlink_between_trays_is_on_only_where_there_is_a_domain_for_it() -> None:
    assert env(ONE_TRAY)["NCCL_MNNVL_ENABLE"] == "0"
    assert env(TWO_TRAYS)["NCCL_MNNVL_ENABLE"] == "1"
    assert env(TWO_TRAYS)["NCCL_CUMEM_ENABLE"] == "1"


def test_everything_the_engine_writes_to_is_a_volume() -> None:
    spec = pod_spec(deployment())
    mounts = {mount["mountPath"]: mount["name"] for mount in container(deployment())["volumeMounts"]}
    assert mounts == {"/dev/shm": "shm", "/tmp": "tmp", "/var/cache/specdecode": "cache"}
    assert {volume["name"] for volume in spec["volumes"]} == {"shm", "tmp", "cache"}
    assert spec["volumes"][0]["emptyDir"] == {"medium": "Memory", "sizeLimit": "1Gi"}


def test_a_volume_called_cache_takes_the_place_of_the_empty_directory() -> None:
    claim = {"name": "cache", "persistentVolumeClaim": {"claimName": "kernels"}}
    volumes = pod_spec(deployment().set("spec.template.volumes", [claim]))["volumes"]
    assert [volume for volume in volumes if volume["name"] == "cache"] == [claim]


def test_a_claim_that_holds_model_and_drafter_is_mounted_once_and_read_only() -> None:
    builder = deployment().serving("pvc://weights/target").drafting("eagle3", "pvc://weights/draft")
    claims = [volume for volume in pod_spec(builder)["volumes"] if "persistentVolumeClaim" in volume]
    assert claims == [
        {"name": "claim-0", "persistentVolumeClaim": {"claimName": "weights", "readOnly": True}},
    ]
    assert {"name": "claim-0", "mountPath": "/mnt/claims/weights", "readOnly": True} in container(builder)[
        "volumeMounts"
    ]


def test_the_template_carries_classes_secrets_and_the_image() -> None:
    extra = {"priorityClassName": "high", "imagePullSecrets": [{"name": "pull"}], "serviceAccountName": "engine"}
    spec = pod_spec(deployment().set("spec.template", extra))
    assert spec["priorityClassName"] == "high"
    assert spec["imagePullSecrets"] == [{"name": "pull"}]
    assert spec["serviceAccountName"] == "engine"
    assert spec["containers"][0]["image"] == IMAGE


# --- Identity ---------------------------------------------------------------------------------------------------------


def identified(builder: DeploymentBuilder, *, serves: bool = True) -> dict[str, Any]:
    spec = builder.spec()
    profile = resolve(spec.accelerator)
    return pod.identified(pod.template(spec, profile, None), "demo", "abcdef0123", profile, serves=serves)


def test_the_operators_labels_stand_over_the_users() -> None:
    labels = identified(deployment().set("spec.template.labels", {"team": "a", names.LABEL_NAME: "other"}))["metadata"]
    assert labels["labels"]["team"] == "a"
    assert labels["labels"][names.LABEL_NAME] == "demo"
    assert labels["labels"][names.LABEL_REVISION] == "abcdef0123"
    assert labels["labels"][names.LABEL_SERVES] == "true"


def test_a_follower_is_in_no_service() -> None:
    spec = TWO_TRAYS.spec()
    follower = pod.worker_template(spec, resolve(spec.accelerator), None)
    assert not {"ports", "readinessProbe", "startupProbe", "livenessProbe"} & set(follower["spec"]["containers"][0])
    assert "--headless" in follower["spec"]["containers"][0]["args"]
    assert names.LABEL_SERVES not in identified(TWO_TRAYS, serves=False)["metadata"]["labels"]


def test_trays_of_one_replica_share_an_nvlink_domain() -> None:
    spec = identified(TWO_TRAYS)["spec"]
    (term,) = spec["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == "nvidia.com/gpu.clique"
    assert term["matchLabelKeys"] == ["leaderworkerset.sigs.k8s.io/group-key"]
    assert spec["resourceClaims"] == [{"name": "fabric", "resourceClaimTemplateName": "demo-abcdef0123"}]
    assert spec["containers"][0]["resources"]["claims"] == [{"name": "fabric"}]


@pytest.mark.parametrize("builder", [ONE_TRAY, deployment(), deployment().on("h200", nodesPerReplica=2)])
def test_a_replica_without_a_fabric_of_its_own_claims_none(builder: DeploymentBuilder) -> None:
    assert not {"affinity", "resourceClaims"} & set(identified(builder)["spec"])
