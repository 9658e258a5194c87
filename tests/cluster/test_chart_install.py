"""Installing, upgrading and uninstalling the chart leave what each should, and no engine notices."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from apiserver import CRD, DEPLOYMENT, SERVICE, ApiServer, Kind, Object
from objects import standin
from operatorpod import ACCOUNT, CHART, RELEASE, SYSTEM, InstalledOperator
from workspace import Workspace, uids

from specdecode_local import images
from specdecode_local.gobuild import KUBERNETES_VERSION
from specdecode_operator.api import names

SERVICE_ACCOUNT = Kind("/api/v1", "serviceaccounts")
ROLE = Kind("/apis/rbac.authorization.k8s.io/v1", "roles")
ROLE_BINDING = Kind("/apis/rbac.authorization.k8s.io/v1", "rolebindings")
CLUSTER_ROLE = Kind("/apis/rbac.authorization.k8s.io/v1", "clusterroles", namespaced=False)
ACCESS_REVIEW = Kind("/apis/authorization.k8s.io/v1", "subjectaccessreviews", namespaced=False)
CLUSTER_ROLE_BINDING = Kind("/apis/rbac.authorization.k8s.io/v1", "clusterrolebindings", namespaced=False)

MONITORING = frozenset({"PodMonitor", "ServiceMonitor", "PrometheusRule"})
OF_THE_RELEASE = (DEPLOYMENT, SERVICE, SERVICE_ACCOUNT, ROLE, ROLE_BINDING, CLUSTER_ROLE, CLUSTER_ROLE_BINDING)

Command = Callable[..., str]
MakeNamespace = Callable[[str], str]

VALUES = sorted((Path(__file__).parents[1] / "charts" / "values").glob("*.yaml"))


@pytest.fixture(scope="module")
def reinstalled(operator: InstalledOperator) -> Iterator[InstalledOperator]:
    """The operator, put back as the other tests expect it, whatever these did to the release: each minds only its own
    change of it.
    """
    yield operator
    operator.install(images.build("operator"))


@pytest.fixture(scope="module")
def shared_namespace(make_namespace: MakeNamespace) -> str:
    """For rows that leave nothing or little: taking a namespace away is a request for each kind there is."""
    return make_namespace("chart")


def left_of_the_release(api: ApiServer) -> list[str]:
    """Everything with the release's label, but for the CRD."""
    selector = f"app.kubernetes.io/instance={RELEASE},app.kubernetes.io/managed-by=Helm"
    return [
        f"{kind.plural}/{found['metadata']['name']}"
        for kind in OF_THE_RELEASE
        for found in api.list(kind, selector=selector)
    ]


def serving(workspace: Workspace, name: str, image: str) -> set[str]:
    """An object with two Ready engines; returns their UIDs."""
    workspace.create(standin(name, image))
    workspace.await_settled(name)
    return uids(workspace.pods(name))


@pytest.mark.alone
def test_uninstall_leaves_objects_and_engines_and_a_new_install_goes_on_with_them(
    api: ApiServer, reinstalled: InstalledOperator, workspace: Workspace, helm: Command, standin_image: str
) -> None:
    engines = serving(workspace, "kept", standin_image)

    helm("uninstall", RELEASE, "--namespace", SYSTEM, "--wait", "--timeout", "2m")

    workspace.await_that("nothing of the release is left but the CRD", lambda: left_of_the_release(api) == [])
    assert api.get(CRD, names.CRD_NAME) is not None
    assert workspace.sdd("kept")["spec"]["replicas"] == 2
    workspace.holds_for("both engines stay Ready", lambda: uids(workspace.ready_pods("kept")) == engines, seconds=5)

    reinstalled.install(images.build("operator"))
    workspace.change("kept", {"replicas": 3})
    workspace.await_settled("kept")
    assert engines <= uids(workspace.ready_pods("kept"))


@pytest.mark.alone
def test_an_upgrade_of_the_operator_alone_touches_no_engine(
    reinstalled: InstalledOperator, workspace: Workspace, helm: Command, standin_image: str
) -> None:
    engines = serving(workspace, "untouched", standin_image)
    generation = workspace.sdd("untouched")["metadata"]["generation"]

    helm(
        "upgrade", RELEASE, str(CHART), "--namespace", SYSTEM, "--reuse-values",
        "--set", "podAnnotations.restarted=yes", "--wait", "--timeout", "3m",
    )  # fmt: skip

    workspace.holds_for("the engines stay", lambda: uids(workspace.ready_pods("untouched")) == engines, seconds=5)
    assert workspace.sdd("untouched")["metadata"]["generation"] == generation


@pytest.mark.alone
def test_upgrade_brings_the_new_crd_and_restarts_no_engine(
    api: ApiServer,
    reinstalled: InstalledOperator,
    workspace: Workspace,
    helm: Command,
    standin_image: str,
    tmp_path: Path,
) -> None:
    engines = serving(workspace, "upgraded", standin_image)
    newer = tmp_path / "specdecode-operator"
    shutil.copytree(CHART, newer)
    manifest = newer / "templates" / "crd.yaml"
    column = "Upgraded"
    manifest.write_text(manifest.read_text().replace("name: Ready\n", f"name: {column}\n", 1))
    assert column in manifest.read_text(), "the CRD has no printer column called Ready any more"

    helm("upgrade", RELEASE, str(newer), "--namespace", SYSTEM, "--reuse-values", "--wait", "--timeout", "3m")

    crd = api.get(CRD, names.CRD_NAME)
    assert crd is not None
    assert column in [found["name"] for found in crd["spec"]["versions"][0]["additionalPrinterColumns"]]
    workspace.holds_for("both engines stay Ready", lambda: uids(workspace.ready_pods("upgraded")) == engines, seconds=5)


def can(api: ApiServer, verb: str, resource: str, *, namespace: str, user: str, groups: tuple[str, ...] = ()) -> bool:
    """Whether RBAC lets a user do it; `resource` is as in a role, `resource.group/subresource`."""
    full, _, subresource = resource.partition("/")
    name, _, group = full.partition(".")
    asked = {"namespace": namespace, "verb": verb, "group": group, "resource": name, "subresource": subresource}
    review = {"spec": {"user": user, "groups": list(groups), "resourceAttributes": asked}}
    return bool(api.create(ACCESS_REVIEW, review)["status"]["allowed"])


@pytest.mark.alone
def test_an_operator_of_one_namespace_serves_it_and_can_do_nothing_elsewhere(
    api: ApiServer,
    reinstalled: InstalledOperator,
    workspace: Workspace,
    make_namespace: MakeNamespace,
    helm: Command,
    standin_image: str,
) -> None:
    elsewhere = make_namespace("not-watched")

    helm(
        "upgrade", RELEASE, str(CHART), "--namespace", SYSTEM, "--reuse-values",
        "--set", f"watchNamespaces={{{workspace.name}}}", "--wait", "--timeout", "3m",
    )  # fmt: skip

    assert can(api, "patch", "replicasets.apps", namespace=workspace.name, user=ACCOUNT)
    assert not can(api, "get", "pods", namespace=elsewhere, user=ACCOUNT)
    assert not can(api, "list", "namespaces", namespace="", user=ACCOUNT)
    serving(workspace, "served", standin_image)
    other = Workspace(api=api, name=elsewhere, operator_log=workspace.operator_log)
    other.create(standin("ignored", standin_image))
    other.holds_for("nobody serves the other namespace", lambda: "status" not in other.sdd("ignored"), seconds=5)


def test_the_operators_pod_is_admitted_where_restricted_pod_security_is_enforced(
    api: ApiServer, operator: InstalledOperator, kubectl: Command, namespace: str
) -> None:
    kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    deployment = api.get(DEPLOYMENT, RELEASE, SYSTEM)
    assert deployment is not None
    pod: Object = {"apiVersion": "v1", "kind": "Pod", **deployment["spec"]["template"]}
    pod["metadata"] = {"name": "as-the-operator", "labels": pod["metadata"]["labels"]}
    pod["spec"] = {**pod["spec"], "serviceAccountName": "default"}
    kubectl("create", "--namespace", namespace, "--dry-run=server", "--filename", "-", stdin=json.dumps(pod))


@pytest.mark.parametrize("values", VALUES, ids=[path.stem for path in VALUES])
def test_the_api_server_takes_every_manifest_of_each_set_of_values(
    api: ApiServer,
    operator: InstalledOperator,
    helm: Command,
    kubectl: Command,
    shared_namespace: str,
    values: Path,
) -> None:
    rendered = helm(
        "template",
        RELEASE,
        str(CHART),
        "--kube-version",
        KUBERNETES_VERSION,
        "--namespace",
        shared_namespace,
        "--values",
        str(values),
    )
    given = yaml.safe_load(values.read_text())
    elsewhere = {*given.get("watchNamespaces", []), given.get("dashboards", {}).get("namespace")} - {None}
    manifests = [found for found in yaml.load_all(rendered, yaml.CSafeLoader) if not is_absent(api, found["kind"])]
    for manifest in manifests:
        if manifest["metadata"].get("namespace") in elsewhere:
            manifest["metadata"]["namespace"] = shared_namespace
    kubectl(
        "apply", "--server-side", "--force-conflicts", "--dry-run=server", "--filename", "-",
        stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}),
    )  # fmt: skip


def is_absent(api: ApiServer, kind: str) -> bool:
    """Whether a kind of the Prometheus Operator's is not installed."""
    return kind in MONITORING and api.get(CRD, f"{kind.lower()}s.monitoring.coreos.com") is None


@pytest.mark.parametrize(
    ("role", "verb", "resource", "allowed"),
    [
        ("view", "get", "specdecodedeployments.specdecode.io", True),
        ("view", "create", "specdecodedeployments.specdecode.io", False),
        ("edit", "create", "specdecodedeployments.specdecode.io", True),
        ("edit", "patch", "specdecodedeployments.specdecode.io/scale", True),
        ("edit", "update", "specdecodedeployments.specdecode.io/status", False),
        ("admin", "delete", "specdecodedeployments.specdecode.io", True),
    ],
)
def test_people_use_the_objects_through_the_roles_that_they_have(
    api: ApiServer,
    operator: InstalledOperator,
    kubectl: Command,
    shared_namespace: str,
    role: str,
    verb: str,
    resource: str,
    allowed: bool,
) -> None:
    user = f"{role}-{verb}"
    kubectl("create", "rolebinding", user, f"--clusterrole={role}", f"--user={user}", "--namespace", shared_namespace)
    assert can(api, verb, resource, namespace=shared_namespace, user=user) is allowed
