"""`spec.template`: what a pod carries besides the engine, in Kubernetes' own words for it."""

from typing import Annotated, Literal

from pydantic import Field

from specdecode_operator.api import names
from specdecode_operator.api.cel import Rule, given, number, quoted
from specdecode_operator.api.fields import (
    QUALIFIED,
    QUALIFIED_IN_WORDS,
    AbsolutePath,
    Annotations,
    Key,
    LabelName,
    Labels,
    LabelValue,
    Model,
    ObjectName,
    Quantities,
    Quantity,
    RelativePath,
    atomic,
    keyed,
    qualified_keys,
    spelled,
)


class Toleration(Model):
    """A taint that the pods tolerate."""

    RULES = (
        Rule(
            rule="has(self.key) && size(self.key) > 0 || has(self.operator) && self.operator == 'Exists'",
            found="no key and operator Equal",
            allowed="a key, or operator Exists for all taints",
            action="name the taint's key",
            field_path=".key",
        ),
        Rule(
            rule="!(has(self.operator) && self.operator == 'Exists' && has(self.value))",
            found="a value with operator Exists",
            allowed="a value with operator Equal only",
            action="remove the value, or set operator to Equal",
            field_path=".value",
        ),
        Rule(
            rule="!has(self.tolerationSeconds) || has(self.effect) && self.effect == 'NoExecute'",
            found="tolerationSeconds without effect NoExecute",
            allowed="tolerationSeconds with effect NoExecute only",
            action="remove it, or set effect to NoExecute",
            field_path=".tolerationSeconds",
        ),
    )

    key: (
        Annotated[str, Field(max_length=317, json_schema_extra=spelled(f"^({QUALIFIED})?$", f"{QUALIFIED_IN_WORDS}"))]
        | None
    ) = Field(default=None, description="Taint key. Absent, with operator Exists: all taints.")
    operator: Literal["Exists", "Equal"] | None = Field(default=None, description="Exists or Equal (the default).")
    value: LabelValue | None = Field(default=None, description="Taint value, for Equal.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        default=None, description="Taint effect. Absent: all effects."
    )
    toleration_seconds: Annotated[int, Field(ge=0, le=86400)] | None = Field(
        default=None, description="For NoExecute: seconds until the pod is evicted."
    )


_RESOURCE = "^(cpu|memory|ephemeral-storage|hugepages-[0-9]+[KMGT]i|.+/.+)$"
"""Of qualified names, those that a container may have as a resource."""


class Resources(Model):
    """Resources of the engine's container, over the profile's defaults. GPUs come from accelerator.gpusPerNode."""

    RULES = (
        *(
            Rule(
                rule=f"!has(self.{kind}) || !('{names.GPU}' in self.{kind})",
                found=names.GPU,
                allowed="other resources, since accelerator.gpusPerNode says how many GPUs",
                action="remove it, and set accelerator.gpusPerNode",
                field_path=f".{kind}",
            )
            for kind in ("requests", "limits")
        ),
        *(
            Rule(
                rule=f"!has(self.{kind}) || self.{kind}.all(key, key.matches({quoted(f'^{QUALIFIED}$')}) && "
                f"key.matches({quoted(_RESOURCE)}) && key.indexOf('/') <= 244 && !key.startsWith('requests.'))",
                found="a resource that no container has",
                allowed="cpu, memory, ephemeral-storage, hugepages-<size>, and extended resources such as rdma/ib",
                action="correct the name",
                field_path=f".{kind}",
            )
            for kind in ("requests", "limits")
        ),
        Rule(
            rule="!has(self.requests) || self.requests.all(key, !key.matches('/|^hugepages-') || "
            "has(self.limits) && key in self.limits && self.requests[key] == self.limits[key])",
            found="an extended resource, or huge pages, requested without the same limit",
            allowed="the limit alone, which is the request too, or both the same",
            action="write it under limits only",
            field_path=".requests",
        ),
        Rule(
            rule="!has(self.requests) || !has(self.limits) || self.requests.all(key, !(key in self.limits) || "
            "!isQuantity(string(self.requests[key])) || !isQuantity(string(self.limits[key])) || "
            "!quantity(string(self.requests[key])).isGreaterThan(quantity(string(self.limits[key]))))",
            found="a request above its limit",
            allowed="at most the limit",
            action="lower the request, or raise the limit",
            field_path=".requests",
        ),
    )

    requests: Quantities = Field(
        default_factory=dict, description="What the scheduler sets aside: cpu, memory, and extended resources (RDMA)."
    )
    limits: Quantities = Field(
        default_factory=dict,
        description="What the container may use at most. A limit without a request is the request too.",
    )


class KeyToPath(Model):
    """One key of a ConfigMap or Secret as a file."""

    key: Key = Field(description="The key.")
    path: RelativePath = Field(description="Relative path of its file.")
    mode: Annotated[int, Field(ge=0, le=511)] | None = Field(default=None, description="File mode bits.")


Items = Annotated[tuple[KeyToPath, ...], Field(max_length=64)]


class ClaimVolume(Model):
    """A PersistentVolumeClaim of the object's namespace."""

    claim_name: ObjectName = Field(description="Name of the claim.")
    read_only: bool | None = Field(default=None, description="Mount it read-only.")


class EmptyDirVolume(Model):
    """A directory that lives as long as the pod."""

    medium: Literal["", "Memory"] | None = Field(default=None, description="Memory: a tmpfs, counted as memory.")
    size_limit: Quantity | None = Field(default=None, description="The pod is evicted beyond this size.")


class ConfigMapVolume(Model):
    """Files from a ConfigMap of the object's namespace."""

    name: ObjectName = Field(description="Name of the ConfigMap.")
    items: Items | None = Field(default=None, description="Keys to mount. Absent: all.", json_schema_extra=atomic())
    default_mode: Annotated[int, Field(ge=0, le=511)] | None = Field(default=None, description="File mode bits.")
    optional: bool | None = Field(default=None, description="True: the pod starts if the ConfigMap is absent.")


class SecretVolume(Model):
    """Files from a Secret of the object's namespace."""

    secret_name: ObjectName = Field(description="Name of the Secret.")
    items: Items | None = Field(default=None, description="Keys to mount. Absent: all.", json_schema_extra=atomic())
    default_mode: Annotated[int, Field(ge=0, le=511)] | None = Field(default=None, description="File mode bits.")
    optional: bool | None = Field(default=None, description="True: the pod starts if the Secret is absent.")


class HostPathVolume(Model):
    """A path of the node, if the operator's chart allows it."""

    path: AbsolutePath = Field(description="Absolute path on the node. It must lie in the chart's allowedHostPaths.")
    type: Literal["", "Directory", "DirectoryOrCreate", "File", "Socket", "CharDevice"] | None = Field(
        default=None, description="What must be there."
    )


_VOLUME_SOURCES = ("persistentVolumeClaim", "emptyDir", "configMap", "secret", "hostPath")


class Volume(Model):
    """A volume of the pods: exactly one source."""

    RULES = (
        Rule(
            rule=f"{given(*_VOLUME_SOURCES)} == 1",
            found=f"{{{number(given(*_VOLUME_SOURCES), 1)}}} sources for volume {{self.name}}",
            allowed="exactly one of persistentVolumeClaim, emptyDir, configMap, secret and hostPath",
            action="keep one",
        ),
        Rule(
            rule=f"!self.name.matches('^({names.VOLUME_SHM}|{names.VOLUME_TMP}|{names.CLAIM_VOLUME_PREFIX}[0-9]+)$')",
            found="{self.name}",
            allowed=f"names other than {names.VOLUME_SHM}, {names.VOLUME_TMP} and {names.CLAIM_VOLUME_PREFIX}<number>, "
            "which are the operator's",
            action="rename the volume",
            field_path=".name",
        ),
    )

    name: LabelName = Field(
        description="Name of the volume. `cache` takes the place of the emptyDir for weights and compiled kernels."
    )
    persistent_volume_claim: ClaimVolume | None = Field(default=None, description="A PersistentVolumeClaim.")
    empty_dir: EmptyDirVolume | None = Field(default=None, description="A directory that lives as long as the pod.")
    config_map: ConfigMapVolume | None = Field(default=None, description="Files from a ConfigMap.")
    secret: SecretVolume | None = Field(default=None, description="Files from a Secret.")
    host_path: HostPathVolume | None = Field(
        default=None, description="A path of the node, if the operator's chart allows it."
    )


class VolumeMount(Model):
    """Where a volume appears in the engine's container."""

    RULES = (
        Rule(
            rule=f"!self.mountPath.matches('^/+(dev/shm|tmp|{names.CACHE_PATH[1:]}|{names.CLAIMS_PATH[1:]}(/.*)?)?/*$')",
            found="{self.mountPath}",
            allowed="paths other than /, the image's own, and /dev/shm (accelerator.shmSize), /tmp, "
            f"{names.CACHE_PATH} (a volume called {names.VOLUME_CACHE}) and {names.CLAIMS_PATH}, which are the "
            "operator's",
            action="mount it elsewhere",
            field_path=".mountPath",
        ),
    )

    name: LabelName = Field(description="Name of a volume of this template.")
    mount_path: AbsolutePath = Field(description="Absolute path in the container.")
    sub_path: RelativePath | None = Field(default=None, description="Path inside the volume. Absent: its root.")
    read_only: bool | None = Field(default=None, description="Mount it read-only.")


class SecretName(Model):
    """A Secret of the object's namespace."""

    name: ObjectName = Field(description="Name of the Secret.")


_OWN_LABELS = [names.LABEL_APP_NAME, names.LABEL_APP_INSTANCE, names.LABEL_MANAGED_BY]


class Template(Model):
    """What else the pods carry."""

    RULES = (
        qualified_keys("labels", "label"),
        qualified_keys("annotations", "annotation"),
        qualified_keys("nodeSelector", "label"),
        Rule(
            rule="!has(self.annotations) || "
            "self.annotations.map(key, size(key) + size(self.annotations[key])).sum() <= 250000",
            found="more than 250000 characters in all",
            allowed="at most 250000, names and values together, since Kubernetes takes no more",
            action="shorten them, or put them into a ConfigMap",
            field_path=".annotations",
        ),
        Rule(
            rule=f"!has(self.labels) || self.labels.all(key, !key.startsWith('{names.GROUP}/') && "
            f"!(key in {_OWN_LABELS}))",
            found="a label that the operator sets itself",
            allowed=f"labels other than {names.GROUP}/* and {', '.join(_OWN_LABELS)}",
            action="remove it",
            field_path=".labels",
        ),
        Rule(
            rule="!has(self.volumeMounts) || self.volumeMounts.all(mount, "
            f"mount.name == '{names.VOLUME_CACHE}' || has(self.volumes) && "
            "self.volumes.exists(volume, volume.name == mount.name))",
            found="a mount of a volume that is not there",
            allowed=f"the names in template.volumes, and {names.VOLUME_CACHE}",
            action="add the volume, or correct the mount's name",
            field_path=".volumeMounts",
        ),
    )

    labels: Labels = Field(
        default_factory=dict,
        description="Labels of the pods. They reach pods of the next revision: a change of "
        "labels alone restarts nothing.",
    )
    annotations: Annotations = Field(
        default_factory=dict,
        description="Annotations of the pods. They reach pods of the next revision: a change of "
        "annotations alone restarts nothing.",
    )
    resources: Resources = Field(
        default_factory=Resources, description="Resources of the engine's container, over the profile's defaults."
    )
    volumes: Annotated[tuple[Volume, ...], Field(max_length=32)] = Field(
        default=(), description="Volumes of the pods.", json_schema_extra=keyed("name")
    )
    volume_mounts: Annotated[tuple[VolumeMount, ...], Field(max_length=32)] = Field(
        default=(),
        description="Where volumes appear in the engine's container.",
        json_schema_extra=keyed("mountPath"),
    )
    node_selector: Labels = Field(
        default_factory=dict, description="Labels a node must have, besides the accelerator's."
    )
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=16)] = Field(
        default=(), description="Taints the pods tolerate, besides the accelerator's.", json_schema_extra=atomic()
    )
    priority_class_name: ObjectName | None = Field(default=None, description="PriorityClass of the pods.")
    image_pull_secrets: Annotated[tuple[SecretName, ...], Field(max_length=16)] = Field(
        default=(), description="Secrets for pulling the image.", json_schema_extra=keyed("name")
    )
    service_account_name: ObjectName | None = Field(
        default=None,
        description="Service account of the pods, from the chart's allow-list. Absent: default. No token "
        "is mounted either way.",
    )
