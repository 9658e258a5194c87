"""What the chart renders: valid for the API server, and as the operator needs it."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from chart import CHART, NAMESPACE, REPOSITORY, VALUE_SETS, Chart, Json, built

from specdecode_operator.api import names
from specdecode_operator.metrics.backends import Backend
from specdecode_operator.settings import PREFIX, Settings

POLICY = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
MOUNTED = Path("/etc/specdecode/backends")


@pytest.mark.parametrize("values", VALUE_SETS)
def test_helm_lint_finds_nothing(chart: Chart, values: str) -> None:
    findings = [line for line in chart.lint(values).splitlines() if line.startswith(("[ERROR]", "[WARNING]"))]
    assert findings == []


@pytest.fixture(scope="session")
def checked(chart: Chart, published_schemas: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Json]]:
    """What kubeconform says to each set of values: asked once, since most of its time is reading the schemas."""
    folder = tmp_path_factory.mktemp("manifests")
    for values in VALUE_SETS:
        (folder / f"{values}.yaml").write_text(chart.render(values).text)
    options = ("-strict", "-output", "json", "-verbose", "-schema-location", published_schemas)
    done = subprocess.run([built("kubeconform"), *options, folder], capture_output=True, text=True, check=False)
    said: dict[str, list[Json]] = {values: [] for values in VALUE_SETS}
    for found in json.loads(done.stdout)["resources"]:
        said[Path(found["filename"]).stem].append(found)
    return said


@pytest.mark.cluster
@pytest.mark.apart
@pytest.mark.parametrize("values", VALUE_SETS)
def test_every_manifest_fits_the_schema_of_its_kind(chart: Chart, checked: dict[str, list[Json]], values: str) -> None:
    refused = [found for found in checked[values] if found["status"] != "statusValid"]
    assert refused == [], f"refused manifests: {json.dumps(refused, indent=1)}"
    assert len(checked[values]) == len(chart.render(values).objects)


def test_versions_of_chart_and_program_are_one() -> None:
    program = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (program, program)


def files_of(values: str) -> int:
    """Backends of a set of values that need files."""
    return 2 if values == "everything" else 0


def container(deployment: Json) -> Json:
    (only,) = deployment["spec"]["template"]["spec"]["containers"]
    return dict(only)


def test_the_image_is_the_digest_if_there_is_one_else_the_tag_else_the_version(chart: Chart) -> None:
    images = {values: container(chart.render(values).only("Deployment"))["image"] for values in VALUE_SETS}
    digest = "0123456789abcdef" * 4
    assert images["digest"] == f"registry.example.com/specdecode/operator@sha256:{digest}"
    assert images["podmonitor"] == "registry.example.com/specdecode/operator:main"
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    assert images["tag"] == f"127.0.0.1:5000/specdecode/operator:{version}"


def test_there_is_never_a_second_operator(chart: Chart) -> None:
    spec = chart.render().only("Deployment")["spec"]
    assert spec["replicas"] == 1
    assert spec["strategy"] == {"type": "Recreate"}


@pytest.mark.parametrize("values", VALUE_SETS)
def test_the_pod_is_as_the_restricted_pod_security_standard_asks(chart: Chart, values: str) -> None:
    pod = chart.render(values).only("Deployment")["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] != 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container(chart.render(values).only("Deployment"))["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert [set(volume) - {"name"} for volume in pod["volumes"]] == [{"emptyDir"}, *[{"projected"}] * files_of(values)]
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)


@pytest.mark.parametrize("values", VALUE_SETS)
def test_probes_ask_the_health_port_and_metrics_have_theirs(chart: Chart, values: str) -> None:
    operator = container(chart.render(values).only("Deployment"))
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert operator[probe]["httpGet"] == {"path": "/healthz", "port": "health"}
    ports = {port["name"]: port["containerPort"] for port in operator["ports"]}
    assert ports == ({"health": 9080, "metrics": 9081} if values == "everything" else {"health": 8080, "metrics": 8081})


def environment(chart: Chart, values: str) -> dict[str, str]:
    return {one["name"]: one["value"] for one in container(chart.render(values).only("Deployment"))["env"]}


def test_each_value_reaches_the_operator_as_the_setting_that_it_is(chart: Chart) -> None:
    assert Settings.from_env(environment(chart, "everything")) == Settings(
        log_level="debug",
        health_port=9080,
        metrics_port=9081,
        allowed_host_paths=("/mnt/models", "/var/cache/kernels"),
        allowed_service_accounts=("model-reader",),
        metrics_backends=(
            Backend(
                name="main",
                url="https://prometheus.monitoring.svc:9090/base",
                ca_file=MOUNTED / "main/ca.crt",
                bearer_file=MOUNTED / "main/token",
                tenant="team-a",
                labels={"cluster": "east"},
                namespaces=("team-a",),
            ),
            Backend(
                name="other",
                url="https://mimir.example.com",
                ca_file=MOUNTED / "other/ca.crt",
                username_file=MOUNTED / "other/username",
                password_file=MOUNTED / "other/password",
                tenant_header="THANOS-TENANT",
            ),
            Backend(name="open", url="http://prometheus.monitoring.svc"),
        ),
        verified_requests=True,
    )
    assert Settings.from_env(environment(chart, "namespaced")).watch_namespaces == ("team-a", "team-b")


def test_the_defaults_of_chart_and_operator_are_the_same(chart: Chart) -> None:
    assert Settings.from_env(environment(chart, "tag")) == Settings()


def test_no_variable_is_set_that_the_operator_does_not_read(chart: Chart) -> None:
    read = {PREFIX + field.name.upper() for field in dataclasses.fields(Settings)}
    assert set(environment(chart, "everything")) <= read


def test_each_file_that_the_operator_is_told_of_is_mounted_from_its_secret_or_configmap(chart: Chart) -> None:
    deployment = chart.render("everything").only("Deployment")
    folders = {mount["name"]: mount["mountPath"] for mount in container(deployment)["volumeMounts"]}
    mounted = {
        f"{folders[volume['name']]}/{item['path']}": (kind, source[kind]["name"], item["key"])
        for volume in deployment["spec"]["template"]["spec"]["volumes"]
        for source in volume.get("projected", {}).get("sources", ())
        for kind in source
        for item in source[kind]["items"]
    }
    assert mounted == {
        str(MOUNTED / "main/ca.crt"): ("configMap", "prometheus-ca", "ca.crt"),
        str(MOUNTED / "main/token"): ("secret", "prometheus", "token"),
        str(MOUNTED / "other/ca.crt"): ("secret", "mimir", "ca.pem"),
        str(MOUNTED / "other/username"): ("secret", "mimir", "user"),
        str(MOUNTED / "other/password"): ("secret", "mimir", "pass"),
    }


@pytest.mark.parametrize(
    ("url", "port"),
    [("http://a", 80), ("https://a/base", 443), ("http://a:9090", 9090), ("https://[fd00::1]", 443),
     ("https://[fd00::1]:9443/", 9443)],
)  # fmt: skip
def test_a_policy_lets_the_operator_reach_its_backends(chart: Chart, url: str, port: int) -> None:
    settings = ("networkPolicy.enabled=true", f'metricsBackends=[{{"name":"a","url":"{url}"}}]')
    egress = chart.render("digest", *settings).only("NetworkPolicy")["spec"]["egress"]
    assert {"ports": [{"port": port, "protocol": "TCP"}]} in egress
    named = chart.render("everything").only("NetworkPolicy")["spec"]["egress"]
    assert {"ports": [{"port": 9090, "protocol": "TCP"}]} in named


@pytest.mark.parametrize("values", VALUE_SETS)
def test_services_monitors_and_policies_select_the_pod(chart: Chart, values: str) -> None:
    rendered = chart.render(values)
    deployment = rendered.only("Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"].items()
    assert rendered.only("Service")["spec"]["selector"].items() <= labels
    assert deployment["spec"]["selector"]["matchLabels"].items() <= labels
    for policy in rendered.of_kind("NetworkPolicy"):
        assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels
    for monitor in rendered.of_kind("PodMonitor"):
        assert monitor["spec"]["selector"]["matchLabels"].items() <= labels
        assert monitor["spec"]["podMetricsEndpoints"] == [{"port": "metrics", "interval": "30s", "honorLabels": True}]
    for monitor in rendered.of_kind("ServiceMonitor"):
        service_labels = rendered.only("Service")["metadata"]["labels"]
        assert monitor["spec"]["selector"]["matchLabels"].items() <= service_labels.items()
        assert monitor["spec"]["endpoints"] == [{"port": "metrics", "interval": "15s", "honorLabels": True}]
        assert monitor["metadata"]["labels"]["release"] == "prometheus"


def test_a_policy_for_the_operator_lets_it_ask_the_engine_pods(chart: Chart) -> None:
    policy = chart.render("everything").only("NetworkPolicy")
    port = [{"port": names.PORT, "protocol": "TCP"}]
    (rule,) = [each for each in policy["spec"]["egress"] if each["ports"] == port]
    (peer,) = rule["to"]
    assert peer["podSelector"]["matchLabels"].items() <= names.child_labels("any").items()
    assert peer["namespaceSelector"] == {}, "objects are in any namespace"


def test_nothing_optional_is_there_unless_asked_for(chart: Chart) -> None:
    kinds = sorted(found["kind"] for found in chart.render("tag").objects)
    assert kinds == [
        "ClusterRole",
        "ClusterRole",
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
        "Deployment",
        "Service",
        "ServiceAccount",
    ]


@pytest.mark.parametrize("values", VALUE_SETS)
def test_what_is_namespaced_names_its_namespace(chart: Chart, values: str) -> None:
    cluster_wide = {"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", *POLICY}
    watched = {"Role": ["team-a", "team-b"], "RoleBinding": ["team-a", "team-b"]}
    for found in chart.render(values).objects:
        namespace = found["metadata"].get("namespace")
        if found["kind"] in cluster_wide:
            assert namespace is None
        elif values == "everything" and found["kind"] == "ConfigMap":
            assert namespace == "monitoring"
        else:
            assert namespace in watched.get(found["kind"], [NAMESPACE])


def test_each_dashboard_is_a_configmap_that_grafanas_sidecar_knows(chart: Chart) -> None:
    for values, namespace, label, folder in (
        ("podmonitor", NAMESPACE, ("grafana_dashboard", "1"), {"grafana_folder": "specdecode"}),
        ("everything", "monitoring", ("example.com/dashboard", "yes"), {"example.com/folder": "Serving: speculative"}),
    ):
        found = {item["metadata"]["name"]: item for item in chart.render(values).of_kind("ConfigMap")}
        files = sorted((CHART / "dashboards").glob("*.json"))
        assert set(found) == {f"specdecode-dashboard-{file.stem}" for file in files}
        for file in files:
            item = found[f"specdecode-dashboard-{file.stem}"]
            assert item["metadata"]["namespace"] == namespace
            assert label in item["metadata"]["labels"].items()
            assert item["metadata"]["annotations"] == folder
            ((name, text),) = item["data"].items()
            assert name == f"specdecode-{file.name}"
            assert json.loads(text) == json.loads(file.read_text())


def test_a_dashboard_without_folder_says_nothing_of_one(chart: Chart) -> None:
    for item in chart.render("podmonitor", 'dashboards.folder=""').of_kind("ConfigMap"):
        assert "annotations" not in item["metadata"]


def test_the_rules_are_the_file_that_a_plain_prometheus_takes(chart: Chart) -> None:
    rule = chart.render("everything").only("PrometheusRule")
    assert rule["spec"] == yaml.safe_load((CHART / "rules" / "specdecode.yaml").read_text())
    assert rule["metadata"]["labels"]["release"] == "prometheus"


def test_requests_are_held_against_their_writer_where_the_operator_believes_them(chart: Chart) -> None:
    for values in VALUE_SETS:
        believed = environment(chart, values)["SPECDECODE_VERIFIED_REQUESTS"] == "true"
        assert [len(chart.render(values).of_kind(kind)) for kind in POLICY] == [believed, believed]
    policy, binding = (chart.render("namespaced").only(kind) for kind in POLICY)
    (rule,) = policy["spec"]["matchConstraints"]["resourceRules"]
    assert (rule["apiGroups"], rule["resources"]) == ([names.GROUP], [names.PLURAL])
    assert f"[?'{names.ANNOTATION_REQUEST}']" in json.dumps(policy["spec"]["variables"])
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    (where,) = binding["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"]
    assert where["values"] == ["team-a", "team-b"]
    assert "matchResources" not in chart.render("everything").only(POLICY[1])["spec"]


def test_uninstalling_keeps_the_crd_and_so_every_object(chart: Chart) -> None:
    crd = chart.render().only("CustomResourceDefinition")
    assert crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
