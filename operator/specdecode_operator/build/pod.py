"""The engine's pod: what a spec and an accelerator profile come to when a revision is first rendered.

`template` is the pod as the spec shapes it; `identified` then ties it to one object and revision. The result is frozen
in a ControllerRevision and never made again, so a change here reaches new revisions only.
"""

from collections.abc import Mapping
from typing import Any, Final

from specdecode_operator.api import names
from specdecode_operator.api.catalogue import Series
from specdecode_operator.api.engine import EnvVar
from specdecode_operator.api.fields import Model
from specdecode_operator.api.profiles import ProbeSettings, Profile
from specdecode_operator.api.template import Toleration
from specdecode_operator.api.types import Spec
from specdecode_operator.build.args import HF, claim_of, follower_args, serve_args

USER_ID: Final = 1000
CLAIM_NAME: Final = "fabric"
"""Name, inside the pod, of its claim on the revision's ComputeDomain."""


def template(spec: Spec, profile: Profile, series: Series | None) -> dict[str, Any]:
    """Pod template of the pod that answers requests. `series` is what its image carries; None for a stock engine."""
    container = {**_container(spec, profile, series, serve_args(spec, profile)), **_serving(profile, series)}
    return _template(spec, profile, container)


def worker_template(spec: Spec, profile: Profile, series: Series | None) -> dict[str, Any]:
    """Pod template of the follower pods of a replica that spans nodes: no server, so no port and no probes."""
    return _template(spec, profile, _container(spec, profile, series, follower_args(spec, profile)))


def identified(
    template: Mapping[str, Any], name: str, revision: str, profile: Profile, *, serves: bool
) -> dict[str, Any]:
    """`template` as a pod of revision `revision` of the object `name`: labels, spread, and the NVLink domain.

    The user's labels come first and ours over them: selectors must hold.
    """
    labels = {**template["metadata"].get("labels", {}), **names.revision_labels(name, revision)}
    if serves:
        labels[names.LABEL_SERVES] = "true"
    metadata = {**template["metadata"], "labels": labels}
    spec = {**template["spec"], "topologySpreadConstraints": [_spread(name)]}
    if profile.spans_nodes and profile.fabric_domain:
        spec = {**_claimed(spec, names.revision_child(name, revision)), "affinity": _one_clique(name, revision)}
    return {"metadata": metadata, "spec": spec}


# --- Pod --------------------------------------------------------------------------------------------------------------


def _template(spec: Spec, profile: Profile, container: dict[str, Any]) -> dict[str, Any]:
    extra = spec.template
    metadata = {
        "labels": dict(extra.labels),
        "annotations": {names.ANNOTATION_CONTAINER: names.CONTAINER, **extra.annotations},
    }
    pod: dict[str, Any] = {
        "automountServiceAccountToken": False,
        # The engine reads VLLM_PORT; a Service called vllm would set it to an address.
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": spec.drain.termination_grace_period_seconds,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "fsGroup": USER_ID,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": _volumes(spec, profile),
    }
    if selector := _node_selector(spec, profile):
        pod["nodeSelector"] = selector
    if tolerations := [*profile.tolerations, *extra.tolerations]:
        pod["tolerations"] = [_dump(toleration) for toleration in _distinct(tolerations)]
    if profile.runtime_class_name is not None:
        pod["runtimeClassName"] = profile.runtime_class_name
    if extra.priority_class_name is not None:
        pod["priorityClassName"] = extra.priority_class_name
    if extra.service_account_name is not None:
        pod["serviceAccountName"] = extra.service_account_name
    if extra.image_pull_secrets:
        pod["imagePullSecrets"] = [_dump(secret) for secret in extra.image_pull_secrets]
    return {"metadata": {key: value for key, value in metadata.items() if value}, "spec": pod}


def _node_selector(spec: Spec, profile: Profile) -> dict[str, str]:
    arch = {} if profile.arch is None else {"kubernetes.io/arch": profile.arch}
    return {**arch, **profile.node_labels, **spec.template.node_selector}


def _distinct(tolerations: list[Toleration]) -> list[Toleration]:
    return [toleration for index, toleration in enumerate(tolerations) if toleration not in tolerations[:index]]


def _spread(name: str) -> dict[str, Any]:
    """Prefer nodes with fewer replicas of this object: losing a node then costs as little as it can."""
    return {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {names.LABEL_NAME: name}},
    }


def _one_clique(name: str, revision: str) -> dict[str, Any]:
    """All pods of one group on trays of one NVLink domain."""
    return {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "labelSelector": {"matchLabels": {names.LABEL_NAME: name, names.LABEL_REVISION: revision}},
                    "matchLabelKeys": [names.LWS_GROUP_KEY],
                    "topologyKey": names.LABEL_CLIQUE,
                }
            ]
        }
    }


def _claimed(spec: Mapping[str, Any], claim_template: str) -> dict[str, Any]:
    """`spec` with a claim on the ComputeDomain's channel, for the pod and its container."""
    container = spec["containers"][0]
    resources = {**container["resources"], "claims": [{"name": CLAIM_NAME}]}
    return {
        **spec,
        "containers": [{**container, "resources": resources}],
        "resourceClaims": [{"name": CLAIM_NAME, "resourceClaimTemplateName": claim_template}],
    }


# --- Container --------------------------------------------------------------------------------------------------------


def _container(spec: Spec, profile: Profile, series: Series | None, args: list[str]) -> dict[str, Any]:
    container: dict[str, Any] = {
        "name": names.CONTAINER,
        "image": spec.engine.image,
        "imagePullPolicy": "IfNotPresent",
        "args": args,
        "env": [*_env(spec, profile), *_attesting(spec, series)],
        "resources": _resources(spec, profile),
        "securityContext": _security(profile),
        "volumeMounts": _mounts(spec),
        # An engine that dies at start says why on its last lines; the pod's status then carries them.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if spec.drain.pre_stop_seconds > 0:
        container["lifecycle"] = {"preStop": {"sleep": {"seconds": spec.drain.pre_stop_seconds}}}
    return container


def _serving(profile: Profile, series: Series | None) -> dict[str, Any]:
    """Port and probes. Startup and liveness ask for the process, readiness for a loaded model (llm-d#330).

    With our package, ready is also that the process has checked its own files. A stock engine has no such path: the
    probe would never succeed there.
    """
    ready = names.STOCK_READY_PATH if series is None else names.READY_PATH
    return {
        "ports": [{"name": names.PORT_NAME, "containerPort": names.PORT, "protocol": "TCP"}],
        "startupProbe": _probe(names.HEALTH_PATH, profile.startup),
        "livenessProbe": _probe(names.HEALTH_PATH, profile.liveness),
        "readinessProbe": _probe(ready, profile.readiness),
    }


def _probe(path: str, settings: ProbeSettings) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": names.PORT_NAME, "scheme": "HTTP"},
        "periodSeconds": settings.period_seconds,
        "timeoutSeconds": settings.timeout_seconds,
        "failureThreshold": settings.failure_threshold,
    }


def _security(profile: Profile) -> dict[str, Any]:
    capabilities: dict[str, Any] = {"drop": ["ALL"]}
    if profile.spans_nodes and profile.fabric_capabilities:
        capabilities["add"] = list(profile.fabric_capabilities)
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": capabilities,
        "readOnlyRootFilesystem": profile.read_only_root,
    }


def _env(spec: Spec, profile: Profile) -> list[dict[str, Any]]:
    """Ours, then the user's in the user's order, since $(NAME) refers to what stands before; the user's wins."""
    ours = {
        "HOME": "/tmp",
        # The user id has no entry in the image; PyTorch asks for a name and fails without one.
        "USER": names.CONTAINER,
        **_hub(spec),
        "VLLM_CACHE_ROOT": f"{names.CACHE_PATH}/vllm",
        "VLLM_NO_USAGE_STATS": "1",
        **profile.env,
        **(profile.fabric_env if profile.spans_nodes else {}),
    }
    theirs = {variable.name for variable in spec.engine.env}
    return [
        *({"name": name, "value": value} for name, value in ours.items() if name not in theirs),
        *(_variable(variable) for variable in spec.engine.env),
    ]


def _attesting(spec: Spec, series: Series | None) -> list[dict[str, Any]]:
    """What the engine checks itself against, in every pod of a replica. No variable of the user's has these names."""
    if series is None:
        return []
    off = sorted(set(spec.engine.optimizations.disable))
    values = {names.ENV_EXPECT_MANIFEST: series.manifest_digest, **({names.ENV_DISABLE: ",".join(off)} if off else {})}
    return [{"name": name, "value": value} for name, value in values.items()]


def _hub(spec: Spec) -> dict[str, str]:
    """Where downloads go; without hf:// sources, no way to the hub, whose limits then cannot matter (aicr#1116)."""
    if any(source.startswith(HF) for source in _sources(spec)):
        return {"HF_HOME": f"{names.CACHE_PATH}/huggingface"}
    return {"HF_HUB_OFFLINE": "1"}


def _variable(variable: EnvVar) -> dict[str, Any]:
    if variable.value_from is not None:
        return {"name": variable.name, "valueFrom": _dump(variable.value_from)}
    return {"name": variable.name, "value": variable.value or ""}


def _resources(spec: Spec, profile: Profile) -> dict[str, Any]:
    """The profile's defaults, the user's over them, and the GPUs over all.

    A limit without a request of its own is the request, as Kubernetes has it, and a request without a limit has none:
    a default on the other side of what the user wrote would make the pod invalid.
    """
    given = spec.template.resources
    defaults = {name: limit for name, limit in profile.limits.items() if name not in given.requests}
    limits = {**defaults, **_quantities(given.limits)}
    requests = {**profile.requests, **_quantities(given.limits), **_quantities(given.requests)}
    gpus = {names.GPU: str(profile.gpus_per_node)} if profile.gpus_per_node else {}
    resources = {"requests": {**requests, **gpus}, "limits": {**limits, **gpus}}
    return {kind: values for kind, values in resources.items() if values}


def _quantities(quantities: Mapping[str, int | str]) -> dict[str, str]:
    return {name: str(quantity) for name, quantity in quantities.items()}


# --- Volumes ----------------------------------------------------------------------------------------------------------


def _volumes(spec: Spec, profile: Profile) -> list[dict[str, Any]]:
    theirs = [_dump(volume) for volume in spec.template.volumes]
    named = {volume["name"] for volume in theirs}
    ours: list[dict[str, Any]] = [
        {"name": names.VOLUME_SHM, "emptyDir": {"medium": "Memory", "sizeLimit": profile.shm_size}},
        {"name": names.VOLUME_TMP, "emptyDir": {}},
        {"name": names.VOLUME_CACHE, "emptyDir": {}},
        *(
            {
                "name": f"{names.CLAIM_VOLUME_PREFIX}{number}",
                "persistentVolumeClaim": {"claimName": claim, "readOnly": True},
            }
            for number, claim in enumerate(_claims(spec))
        ),
    ]
    return [*(volume for volume in ours if volume["name"] not in named), *theirs]


def _mounts(spec: Spec) -> list[dict[str, Any]]:
    return [
        {"name": names.VOLUME_SHM, "mountPath": "/dev/shm"},
        {"name": names.VOLUME_TMP, "mountPath": "/tmp"},
        {"name": names.VOLUME_CACHE, "mountPath": names.CACHE_PATH},
        *(
            {
                "name": f"{names.CLAIM_VOLUME_PREFIX}{number}",
                "mountPath": f"{names.CLAIMS_PATH}/{claim}",
                "readOnly": True,
            }
            for number, claim in enumerate(_claims(spec))
        ),
        *(_dump(mount) for mount in spec.template.volume_mounts),
    ]


def _claims(spec: Spec) -> list[str]:
    """Claims that hold the model and its drafter, each once, sorted."""
    return sorted({claim for source in _sources(spec) if (claim := claim_of(source)) is not None})


def _sources(spec: Spec) -> list[str]:
    """Where model and drafter come from."""
    draft = spec.speculative.draft_model
    return [spec.model.source] if draft is None else [spec.model.source, draft.source]


def _dump(model: Model) -> dict[str, Any]:
    """A model as Kubernetes takes it; quantities as text."""
    dumped: dict[str, Any] = model.model_dump(by_alias=True, exclude_none=True, mode="json")
    if "emptyDir" in dumped and "sizeLimit" in dumped["emptyDir"]:
        dumped["emptyDir"]["sizeLimit"] = str(dumped["emptyDir"]["sizeLimit"])
    return dumped
