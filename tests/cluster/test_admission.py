"""Bad input that the API server itself refuses: what a person reads, from the generated CRD in a real admission chain.

Each row is one mistake, sent as kubectl sends it, with strict validation, and with server-side dry run. That kubectl
prints the whole answer is looked at apart: a program for each row takes far longer than the row. (What only the planner
can know to be bad is in test_bad_input.py.)
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apiserver import SDD, ApiServer, Object, Refused
from badinputtable import BadInputTable
from builders import COMMIT, DIGEST, DeploymentBuilder, deployment
from commands import Command, CommandFailed
from namespaces import MakeNamespace

from specdecode_operator.api.catalogue import CATALOGUE
from specdecode_operator.api.profiles import resolve
from specdecode_operator.build import controllerrevision, pdb, pod, replicaset, service
from specdecode_operator.build.owner import owner_of
from specdecode_operator.build.revision import revision_of

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
SECRET = "s3cret-value"

pytestmark = pytest.mark.usefixtures("operator")

BASE = deployment()
DRAIN = {"preStopSeconds": 60, "shutdownTimeoutSeconds": 120, "terminationGracePeriodSeconds": 150}
SYNTHETIC = {"method": "synthetic", "acceptanceLength": 2.5}
FROM_FIELD = {"fieldRef": {"fieldPath": "status.podIP"}}
FROM_SECRET = {"secretKeyRef": {"name": "hub", "key": "token"}}


def volume(**source: Any) -> DeploymentBuilder:
    return BASE.set("spec.template.volumes", [{"name": "data", **source}])


def mount(path: str, name: str = "data") -> DeploymentBuilder:
    return volume(emptyDir={}).set("spec.template.volumeMounts", [{"name": name, "mountPath": path}])


REFUSED: dict[str, tuple[DeploymentBuilder, tuple[str, ...]]] = {
    "unknown field": (
        BASE.set("spec.engine.optimisations", {}),
        ('unknown field "spec.engine.optimisations"',),
    ),
    "required field missing": (BASE.without("spec.model"), ("spec.model: Required value",)),
    "required field inside missing": (BASE.without("spec.engine.image"), ("spec.engine.image: Required value",)),
    "wrong type": (
        BASE.set("spec.parallelism.tensor", "four"),
        ("spec.parallelism.tensor", "must be of type integer"),
    ),
    "image by tag": (
        BASE.image("registry.example.com/engine:v1"),
        ("spec.engine.image", "found registry.example.com/engine:v1", "repository@sha256:", "write the digest"),
    ),
    "image with a short digest": (
        BASE.image("registry.example.com/engine@sha256:abc"),
        ("spec.engine.image", "64 hexadecimal digits"),
    ),
    "grace period too short": (
        BASE.set("spec.drain", DRAIN),
        ("spec.drain.terminationGracePeriodSeconds", "found 150 s", "more than", "180 s", "raise it"),
    ),
    "negative replicas": (BASE.replicas(-1), ("spec.replicas", "greater than or equal to 0")),
    "huge replicas": (BASE.replicas(100_000), ("spec.replicas", "less than or equal to 1000")),
    "K of zero": (BASE.drafting("mtp", tokens=0), ("spec.speculative.numSpeculativeTokens", "equal to 1")),
    "K too large": (BASE.drafting("mtp", tokens=9), ("spec.speculative.numSpeculativeTokens", "equal to 8")),
    "unknown method": (BASE.drafting("medusa"), ("spec.speculative.method", "supported values", '"eagle3"')),
    "drafter missing": (
        BASE.drafting("eagle3"),
        ("spec.speculative.draftModel", "found no drafter for method eagle3", "set draftModel.source"),
    ),
    "drafter for a method that has none": (
        BASE.drafting("mtp", "/models/draft"),
        ("spec.speculative.draftModel", "found a drafter for method mtp", "remove draftModel"),
    ),
    "synthetic rejection on GPUs": (
        BASE.on("gb200").set("spec.speculative.rejection", SYNTHETIC),
        ("spec.speculative.rejection.method", "found synthetic with profile gb200", "standard"),
    ),
    "synthetic rejection without a length": (
        BASE.set("spec.speculative.rejection", {"method": "synthetic"}),
        ("spec.speculative.rejection.acceptanceLength", "found no acceptanceLength"),
    ),
    "acceptance length without synthetic rejection": (
        BASE.set("spec.speculative.rejection", {"acceptanceLength": 2}),
        ("spec.speculative.rejection.acceptanceLength", "remove it, or set method to synthetic"),
    ),
    "acceptance length above K + 1": (
        BASE.set("spec.speculative.rejection", {"method": "synthetic", "acceptanceLength": 5.5}),
        ("spec.speculative.rejection.acceptanceLength", "numSpeculativeTokens + 1"),
    ),
    "the same variable twice": (
        BASE.set("spec.engine.env", [{"name": "A", "value": SECRET}, {"name": "A", "value": "other"}]),
        ("spec.engine.env[1]: Duplicate value", '"name":"A"'),
    ),
    "a variable with value and source": (
        BASE.set("spec.engine.env", [{"name": "A", "value": SECRET, "valueFrom": FROM_FIELD}]),
        ("spec.engine.env[0]", "found value and valueFrom for A", "remove one"),
    ),
    "a variable from two sources": (
        BASE.set("spec.engine.env", [{"name": "A", "valueFrom": {**FROM_FIELD, **FROM_SECRET}}]),
        ("spec.engine.env[0].valueFrom", "found 2 sources", "keep one"),
    ),
    "a variable of the operator's": (
        BASE.env(SPECDECODE_EXPECT=SECRET),
        ("spec.engine.env[0].name", "found SPECDECODE_EXPECT", "rename it"),
    ),
    "the same volume twice": (
        BASE.set("spec.template.volumes", [{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}]),
        ("spec.template.volumes[1]: Duplicate value",),
    ),
    "the same hostname twice": (
        BASE.behind("inference", "a.example.com", "a.example.com"),
        ("spec.traffic.hostnames[1]: Duplicate value",),
    ),
    "a volume without a source": (volume(), ("spec.template.volumes[0]", "found 0 sources for volume data")),
    "a volume with two sources": (
        volume(emptyDir={}, secret={"secretName": "s"}),
        ("spec.template.volumes[0]", "found 2 sources for volume data", "keep one"),
    ),
    "a volume of the operator's": (
        BASE.set("spec.template.volumes", [{"name": "shm", "emptyDir": {}}]),
        ("spec.template.volumes[0].name", "found shm", "rename the volume"),
    ),
    "a mount of no volume": (mount("/data", name="other"), ("spec.template.volumeMounts", "add the volume")),
    "a mount over the operator's": (
        mount("/dev/shm"),
        ("spec.template.volumeMounts[0].mountPath", "found /dev/shm", "accelerator.shmSize"),
    ),
    "a label of the operator's": (
        BASE.set("spec.template.labels", {"specdecode.io/name": "other"}),
        ("spec.template.labels", "found a label that the operator sets itself"),
    ),
    "a label that is none": (
        BASE.set("spec.template.labels", {"two words": "x"}),
        ("spec.template.labels", "correct the key"),
    ),
    "an annotation key with a space": (
        BASE.set("spec.template.annotations", {"two words": "x"}),
        ("spec.template.annotations", "correct the key"),
    ),
    "a quantity that is none": (
        BASE.set("spec.template.resources.limits", {"memory": "lots"}),
        ("spec.template.resources.limits[memory]", "found a text that is no quantity", "Gi"),
    ),
    "a negative quantity": (
        BASE.set("spec.template.resources.limits", {"memory": -1}),
        ("spec.template.resources.limits.memory", "greater than or equal to 0"),
    ),
    "GPUs among the resources": (
        BASE.on("gb200").set("spec.template.resources.limits", {"nvidia.com/gpu": 2}),
        ("spec.template.resources.limits", "found nvidia.com/gpu", "accelerator.gpusPerNode"),
    ),
    "a toleration without a key": (
        BASE.set("spec.template.tolerations", [{"value": "x"}]),
        ("spec.template.tolerations[0].key", "name the taint's key"),
    ),
    "an optimization switched off in a stock engine": (
        BASE.stock().switched_off("telemetry"),
        ("spec.engine.optimizations.disable", "found 1 names with build stock", "build patched"),
    ),
    "an optimization switched off twice": (
        BASE.switched_off("telemetry", "telemetry"),
        ("spec.engine.optimizations.disable[1]: Duplicate value",),
    ),
    "a build that there isn't": (
        BASE.set("spec.engine.build", "vanilla"),
        ("spec.engine.build", 'Unsupported value: "vanilla"', '"patched", "stock"'),
    ),
    "unknown engine line": (
        BASE.set("spec.engine.version", "0.99.0"),
        ("spec.engine.version", 'Unsupported value: "0.99.0"', '"0.33.0", "0.30.0"'),
    ),
    "unknown accelerator profile": (
        BASE.on("tpu"),
        ("spec.accelerator.profile", 'Unsupported value: "tpu"', '"gb200", "h200", "cpu"'),
    ),
    "GPUs with profile cpu": (
        BASE.on("cpu", gpusPerNode=4),
        ("spec.accelerator.gpusPerNode", "found 4 GPUs with profile cpu", "remove gpusPerNode"),
    ),
    "a repository without a commit": (
        BASE.serving("hf://org/name"),
        ("spec.model.revision", "found no revision beside hf://org/name", "a commit"),
    ),
    "a branch for a commit": (BASE.serving("hf://org/name", "main"), ("spec.model.revision", "40 chars")),
    "a commit for a path": (
        BASE.serving("/models/plain", COMMIT),
        ("spec.model.revision", "found a revision beside /models/plain", "remove it"),
    ),
    "a source of no known form": (
        BASE.serving("s3://bucket/model"),
        ("spec.model.source", "found s3://bucket/model", "hf://org/name, pvc://claim/path or an absolute path"),
    ),
    "name too long for its children": (
        BASE.named("a" * 41),
        ("metadata.name", "found 41 characters", "at most 40", "choose a shorter name"),
    ),
    "name too long for the pods of a group": (
        BASE.named("a" * 38).set("spec.accelerator", {"profile": "gb200", "nodesPerReplica": 2}),
        ("metadata.name", "found 38 characters", "nodesPerReplica over 1", "at most 37", "choose a shorter name"),
    ),
    "name that no Service could have": (BASE.named("1st"), ("metadata.name", "found 1st", "beginning with a letter")),
    "a path with empty segments": (
        BASE.behind("inference").set("spec.traffic.path", "/v1//chat"),
        ("spec.traffic.path", "found /v1//chat", "plain path"),
    ),
    "a time limit that is none": (
        BASE.behind("inference").set("spec.traffic.requestTimeout", "forever"),
        ("spec.traffic.requestTimeout", "found forever", "90s or 1h30m"),
    ),
    "a unit that there isn't": (
        BASE.set("spec.accelerator.shmSize", "64K"),
        ("spec.accelerator.shmSize", "found a text that is no quantity", "k, M, G"),
    ),
    "a resource that no container has": (
        BASE.set("spec.template.resources.limits", {"gpus": 2}),
        ("spec.template.resources.limits", "found a resource that no container has", "rdma/ib"),
    ),
    "an extended resource without a limit": (
        BASE.set("spec.template.resources.requests", {"rdma/ib": 1}),
        ("spec.template.resources.requests", "without the same limit", "under limits only"),
    ),
    "a request above its limit": (
        BASE.set("spec.template.resources", {"requests": {"cpu": "1500m"}, "limits": {"cpu": 1}}),
        ("spec.template.resources.requests", "found a request above its limit", "raise the limit"),
    ),
    "a mount over the image": (
        mount("/"),
        ("spec.template.volumeMounts[0].mountPath", "found /", "mount it elsewhere"),
    ),
    "a mount over the image, spelled otherwise": (
        mount("//"),
        ("spec.template.volumeMounts[0].mountPath", "found //", "mount it elsewhere"),
    ),
    "a mount among the operator's claims": (
        mount("/mnt/claims/weights"),
        ("spec.template.volumeMounts[0].mountPath", "found /mnt/claims/weights", "which are the operator's"),
    ),
    "a mount that leads up": (
        mount("/data/../etc"),
        ("spec.template.volumeMounts[0].mountPath", "found /data/../etc", "without .."),
    ),
    "a part of a volume outside it": (
        mount("/data").set(
            "spec.template.volumeMounts", [{"name": "data", "mountPath": "/data", "subPath": "a/../../b"}]
        ),
        ("spec.template.volumeMounts[0].subPath", "found a/../../b", "a relative path without colons and without .."),
    ),
    "a file of a Secret outside its volume": (
        volume(secret={"secretName": "s", "items": [{"key": "a", "path": "../b"}]}),
        ("spec.template.volumes[0].secret.items[0].path", "found ../b", "without .."),
    ),
    "a key that no Secret has": (
        BASE.set("spec.engine.env", [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "a b"}}}]),
        ("spec.engine.env[0].valueFrom.secretKeyRef.key", "found a b", "dashes, underscores and dots"),
    ),
    "a field that no pod gives": (
        BASE.set("spec.engine.env", [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.phase"}}}]),
        ("spec.engine.env[0].valueFrom.fieldRef.fieldPath", "found status.phase", "status.hostIP"),
    ),
    "a variable's name that is none": (
        BASE.set("spec.engine.env", [{"name": "1ST", "value": SECRET}]),
        ("spec.engine.env[0].name", "found 1ST", "no digit first"),
    ),
    "a variable with a NUL": (
        BASE.env(A=f"{SECRET}\0"),
        ("spec.engine.env[0].value", "found a NUL character in the value", "remove it"),
    ),
    "an argument with a NUL": (
        BASE.args("--seed", "1\0"),
        ("spec.engine.args[1]", "found a NUL character in an argument", "remove it"),
    ),
    "a label's value that is none": (
        BASE.set("spec.template.labels", {"team": "a b"}),
        ("spec.template.labels[team]", "found a b", "a letter or digit first and last"),
    ),
    "a label below a name that is none": (
        BASE.set("spec.template.labels", {"a..b/team": "x"}),
        ("spec.template.labels", "found a key that is no label key", "an optional DNS name and slash"),
    ),
    "a node label that is none": (
        BASE.set("spec.template.nodeSelector", {"two words": "x"}),
        ("spec.template.nodeSelector", "found a key that is no label key", "correct the key"),
    ),
    "a node label instead of the profile's that is none": (
        BASE.on("cpu", nodeLabels={"two words": "x"}),
        ("spec.accelerator.nodeLabels", "found a key that is no label key", "correct the key"),
    ),
    "annotations that are too long together": (
        BASE.set("spec.template.annotations", {f"note-{number}": "x" * 32000 for number in range(8)}),
        ("spec.template.annotations", "more than 250000 characters in all", "ConfigMap"),
    ),
    "a taint that there can't be": (
        BASE.set("spec.template.tolerations", [{"key": "a b", "operator": "Exists"}]),
        ("spec.template.tolerations[0].key", "found a b", "an optional DNS name and slash"),
    ),
    "seconds until an eviction that never comes": (
        BASE.set(
            "spec.template.tolerations",
            [{"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 5}],
        ),
        ("spec.template.tolerations[0].tolerationSeconds", "set effect to NoExecute"),
    ),
    "a runtime class that there can't be": (
        BASE.on("cpu", runtimeClassName="Nvidia!"),
        ("spec.accelerator.runtimeClassName", "found Nvidia!", "the name of a RuntimeClass, or nothing"),
    ),
    "a claim's path that leads out of it": (
        BASE.serving("pvc://c/../.."),
        ("spec.model.source", "found pvc://c/../..", "without the parts . and .."),
    ),
    "a hostname with a part over 63": (
        BASE.behind("inference", f"{'a' * 64}.example.com"),
        ("spec.traffic.hostnames[0]", f"found {'a' * 64}.example.com", "at most 63"),
    ),
    "an address for a hostname": (
        BASE.behind("inference", "10.0.0.1"),
        ("spec.traffic.hostnames[0]", "found 10.0.0.1", "no address"),
    ),
    "a path with a broken escape": (
        BASE.behind("inference").set("spec.traffic.path", "/v1/%zz"),
        ("spec.traffic.path", "found /v1/%zz", "two hexadecimal digits"),
    ),
    "a time between scrapes that is none": (
        BASE.set("spec.metrics.scrapeInterval", "often"),
        ("spec.metrics.scrapeInterval", "found often", "10s or 1m"),
    ),
    "a backend's name that is none": (
        BASE.set("spec.speculative.attentionBackend", "triton"),
        ("spec.speculative.attentionBackend", "found triton", "in capitals"),
    ),
    "a commit that is none": (
        BASE.serving("hf://org/name", "G" * 40),
        ("spec.model.revision", f"found {'G' * 40}", "40 hexadecimal digits in lower case"),
    ),
    "several mistakes at once": (
        BASE.on("tpu").replicas(-1).set("spec.engine.version", "0.1.0"),
        ("spec.accelerator.profile", "spec.replicas", "spec.engine.version"),
    ),
}


DRY = {"dryRun": "All", "fieldValidation": "Strict"}


def created(api: ApiServer, builder: DeploymentBuilder, namespace: str = "default") -> Object:
    obj = builder.set("metadata.namespace", namespace).built()
    return api.request("POST", SDD.path(namespace), params=DRY, json=obj)


def printed(kubectl: Command, builder: DeploymentBuilder) -> str:
    obj = builder.set("metadata.namespace", "default").built()
    return kubectl("create", "--dry-run=server", "-o", "yaml", "-f", "-", stdin=json.dumps(obj))


@pytest.fixture(scope="module")
def table() -> Iterator[BadInputTable]:
    with BadInputTable("refused by the API server") as table:
        yield table


@pytest.mark.parametrize("mistake", REFUSED)
def test_a_mistake_is_refused_with_its_place_and_what_to_do(api: ApiServer, table: BadInputTable, mistake: str) -> None:
    builder, said = REFUSED[mistake]
    with pytest.raises(Refused) as refused:
        created(api, builder)
    message = refused.value.message
    table.add(mistake, message)
    assert [words for words in said if words not in message] == [], message
    assert SECRET not in message


@pytest.mark.parametrize("mistake", ["unknown field", "several mistakes at once"])
def test_kubectl_prints_all_that_the_api_server_says(kubectl: Command, mistake: str) -> None:
    builder, said = REFUSED[mistake]
    with pytest.raises(CommandFailed) as refused:
        printed(kubectl, builder)
    assert [words for words in said if words not in refused.value.printed] == [], refused.value.printed


# --- Updates ----------------------------------------------------------------------------------------------------------

IDLE = BASE.replicas(0)

REFUSED_EDITS: dict[str, tuple[DeploymentBuilder, tuple[str, ...]]] = {
    "a required field removed": (IDLE.without("spec.speculative"), ("spec.speculative: Required value",)),
    "the image removed": (IDLE.without("spec.engine.image"), ("spec.engine.image: Required value",)),
    "an edit to a tag": (IDLE.image("registry.example.com/engine:v2"), ("spec.engine.image", "write the digest")),
    "the name that clients send changed": (
        IDLE.set("spec.model.servedName", "other"),
        ("spec.model", "from demo-model to other", "make a second object"),
    ),
}


@pytest.fixture(scope="module")
def stored(api: ApiServer, make_namespace: MakeNamespace) -> str:
    """A namespace with the object `demo` in it, scaled to zero."""
    namespace = make_namespace("admission")
    api.create(SDD, IDLE.named("demo", namespace).built(), namespace)
    return namespace


def replaced(api: ApiServer, builder: DeploymentBuilder, namespace: str) -> Object:
    """The stored object's whole text anew, as an editor sends it."""
    obj = builder.set("metadata.namespace", namespace).set(
        "metadata.resourceVersion", demo(api, namespace)["metadata"]["resourceVersion"]
    )
    return api.request("PUT", SDD.path(namespace, "demo"), params=DRY, json=obj.built())


def demo(api: ApiServer, namespace: str) -> Object:
    found = api.get(SDD, "demo", namespace)
    assert found is not None
    return found


@pytest.mark.parametrize("mistake", REFUSED_EDITS)
def test_a_bad_edit_is_refused_and_the_object_stays(
    api: ApiServer, table: BadInputTable, stored: str, mistake: str
) -> None:
    builder, said = REFUSED_EDITS[mistake]
    before = demo(api, stored)["spec"]
    with pytest.raises(Refused) as refused:
        replaced(api, builder, stored)
    table.add(f"edit: {mistake}", refused.value.message)
    assert [words for words in said if words not in refused.value.message] == [], refused.value.message
    assert demo(api, stored)["spec"] == before


def test_a_new_model_name_is_taken_while_clients_send_the_old_one(api: ApiServer, stored: str) -> None:
    renamed = IDLE.set("spec.model.name", "next-model").set("spec.model.servedName", "demo-model")
    assert replaced(api, renamed, stored)["spec"]["model"]["name"] == "next-model"


def test_scaling_goes_through_the_same_bounds(kubectl: Command, table: BadInputTable, stored: str) -> None:
    assert "scaled" in kubectl("scale", "sdd/demo", "-n", stored, "--replicas=3", "--dry-run=server")
    with pytest.raises(CommandFailed, match="less than or equal to 1000") as refused:
        kubectl("scale", "sdd/demo", "-n", stored, "--replicas=1001", "--dry-run=server")
    table.add("scaled out of bounds", refused.value.printed)


# --- Good input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_taken(kubectl: Command, path: Path) -> None:
    manifest = path.read_text().replace("image: ENGINE_IMAGE", f"image: registry.example/engine@{DIGEST}")
    kubectl("create", "--dry-run=server", "-n", "default", "-f", "-", stdin=manifest)


def test_an_example_whose_image_was_not_filled_in_is_refused(kubectl: Command) -> None:
    example = Path(__file__).parents[2] / "examples" / "local-cpu.yaml"
    with pytest.raises(CommandFailed, match=r"spec\.engine\.image"):
        kubectl("create", "--dry-run=server", "-n", "default", "-f", str(example))


def test_defaults_show_in_the_object(kubectl: Command) -> None:
    shown = printed(kubectl, BASE.behind("inference"))
    for line in ("preStopSeconds: 15", "requestTimeout: 0s", "scrapeInterval: 10s", "method: standard", "replicas: 1"):
        assert line in shown


def test_an_image_with_port_path_tag_and_digest_is_taken(api: ApiServer) -> None:
    created(api, BASE.image(f"127.0.0.1:5000/Specdecode/engine:V1@{DIGEST}"))


def test_explain_describes_every_field(kubectl: Command) -> None:
    assert "Absent: by Service only" in kubectl("explain", "sdd.spec.traffic")
    assert "Tokens drafted a step (K), 1 to 8" in " ".join(kubectl("explain", "sdd.spec.speculative").split())
    assert "<no description>" not in kubectl("explain", "sdd.spec.engine")


# --- What the operator writes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("builder", [BASE, BASE.on("gb200"), BASE.on("h200")], ids=["cpu", "gb200", "h200"])
def test_children_are_taken_by_server_side_apply(kubectl: Command, builder: DeploymentBuilder) -> None:
    seen = builder.named("demo", "default").parsed()
    owner, profile, revision = owner_of(seen), resolve(seen.spec.accelerator), revision_of(seen.spec)
    kept_as = controllerrevision.build(
        owner, seen.spec, profile, revision, 1, series=CATALOGUE.carried_by(seen.spec.engine)
    )
    frozen = controllerrevision.frozen(kept_as)
    children = [
        kept_as,
        replicaset.build(owner, frozen, 2),
        service.for_revision(owner, revision),
        service.for_all(owner),
        pdb.build(owner, 1),
    ]
    kubectl(
        *("apply", "--server-side", "--dry-run=server", "--field-manager=specdecode-operator", "-f", "-"),
        stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": children}),
    )


def test_a_cpu_engine_is_taken_where_only_restricted_pods_are(kubectl: Command, stored: str) -> None:
    kubectl("label", "namespace", stored, "--overwrite", "pod-security.kubernetes.io/enforce=restricted")
    kubectl("create", "serviceaccount", "engine", "-n", stored)
    seen = BASE.set("spec.template.serviceAccountName", "engine").parsed()
    template = pod.template(seen.spec, resolve(seen.spec.accelerator), CATALOGUE.carried_by(seen.spec.engine))
    manifest = {"apiVersion": "v1", "kind": "Pod", **template}
    manifest["metadata"] = {**template["metadata"], "name": "engine", "namespace": stored}
    kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(manifest))
