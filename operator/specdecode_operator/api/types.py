"""Typed view of a SpecDecodeDeployment, and the only source of its CRD.

Read it as the reference of the resource: each description is what `kubectl explain` prints, each bound and default is
what the API server enforces and fills in. Rules that span fields are CEL rules beside the model that owns the fields
(`RULES`); rules that need a profile's defaults or the whole fleet are the planner's. No rule is in two places.

Models are frozen; unknown fields are ignored here, since the API server has pruned or refused them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, ValidationError
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from specdecode_operator.api import names
from specdecode_operator.api.errors import FieldError, InvalidObject

# --- Bounded scalars: CEL's cost estimate needs every string, list and map to have an end -----------------------------

DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DNS_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"

Text = Annotated[str, Field(max_length=1024)]
LongText = Annotated[str, Field(max_length=32768)]
LabelName = Annotated[str, Field(min_length=1, max_length=63, pattern=DNS_LABEL)]
ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=DNS_NAME)]
AbsolutePath = Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^/[^:]*$")]
RelativePath = Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[^/:][^:]*$")]
Quantity = (
    Annotated[int, Field(ge=0)]
    | Annotated[
        str, Field(min_length=1, max_length=32, pattern=r"^[0-9]+(\.[0-9]+)?([numkKMGTPE]|[KMGTPE]i|[eE][0-9]+)?$")
    ]
)
Key = Annotated[str, Field(min_length=1, max_length=253)]
LabelKey = Annotated[str, Field(min_length=1, max_length=317)]
LabelValue = Annotated[str, Field(max_length=63, pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$")]
Labels = Annotated[dict[LabelKey, LabelValue], Field(max_length=64)]
Annotations = Annotated[dict[LabelKey, LongText], Field(max_length=64)]
Quantities = Annotated[dict[LabelKey, Quantity], Field(max_length=32)]
Duration = Annotated[str, Field(min_length=2, max_length=24, pattern=r"^([0-9]{1,5}(h|m|s|ms)){1,4}$")]
PrometheusDuration = Annotated[str, Field(min_length=2, max_length=16, pattern=r"^[1-9][0-9]{0,4}(ms|s|m|h)$")]
Source = Annotated[str, Field(min_length=1, max_length=512)]
Commit = Annotated[str, Field(min_length=40, max_length=40, pattern=r"^[0-9a-f]{40}$")]

LIST_MAP = "x-kubernetes-list-type"
LIST_KEYS = "x-kubernetes-list-map-keys"


def keyed(*keys: str) -> dict[str, Any]:
    """Schema extension of a list whose items are told apart by `keys`: the API server refuses a duplicate."""
    return {LIST_MAP: "map", LIST_KEYS: list(keys)}


def as_set() -> dict[str, Any]:
    """Schema extension of a list of scalars without duplicates."""
    return {LIST_MAP: "set"}


def atomic() -> dict[str, Any]:
    """Schema extension of a list that one writer owns whole."""
    return {LIST_MAP: "atomic"}


@dataclass(frozen=True)
class Rule:
    """One CEL rule of the CRD. The API server puts the field's path before what the rule says.

    In `found` and `allowed`, `{...}` holds a CEL expression of a string. Never a value that may be a secret.
    """

    rule: str
    """CEL over `self`; over `oldSelf` too, then the rule is asked on updates only."""
    found: str
    allowed: str
    action: str
    """What the user can do about it, as an imperative clause."""
    field_path: str | None = None
    """Path below the model that the error is about, when one field is to blame."""

    def schema(self) -> dict[str, Any]:
        """The rule as `x-kubernetes-validations` takes it. `message` is what is said if the expression fails."""
        said = f"found {self.found}; allowed: {self.allowed}; {self.action}"
        schema = {
            "rule": self.rule,
            "message": _without_values(f"allowed: {self.allowed}; {self.action}"),
            "messageExpression": _cel_text(said),
        }
        return schema if self.field_path is None else {**schema, "fieldPath": self.field_path}


_VALUE = re.compile(r"{([^}]*)}")


def _without_values(said: str) -> str:
    return _VALUE.sub("...", said)


def _cel_text(said: str) -> str:
    """`said` as one CEL expression: text in quotes, joined with the expressions in braces."""
    parts = _VALUE.split(said)
    quoted = ["'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'" if text else "" for text in parts[::2]]
    joined = [part for pair in zip(quoted, [*parts[1::2], ""], strict=True) for part in pair if part]
    return " + ".join(joined)


def number(value: str, digits: int) -> str:
    """CEL that writes the non-negative integer `value`, at most `digits` digits long, as text.

    CEL's own `string()` makes a text without a bound, and the API server's cost estimate then refuses the message.
    """
    places = [10**place for place in reversed(range(digits))]
    digit = "'0123456789'.substring({0}, {0} + 1)"
    return " + ".join(
        digit.format(f"({value}) % 10")
        if place == 1
        else f"(({value}) < {place} ? '' : {digit.format(f'({value}) / {place} % 10')})"
        for place in places
    )


def _given(*fields: str) -> str:
    """CEL for how many of the optional `fields` are set."""
    return " + ".join(f"(has(self.{field}) ? 1 : 0)" for field in fields)


class Model(BaseModel):
    """Base of all models here: camelCase in the object, snake_case in the program."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True, protected_namespaces=()
    )

    RULES: ClassVar[tuple[Rule, ...]] = ()

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core_schema)
        if cls.RULES:
            handler.resolve_ref_schema(schema)["x-kubernetes-validations"] = [rule.schema() for rule in cls.RULES]
        return schema


ROOT_RULES = (
    Rule(
        rule=f"size(self.metadata.name) <= {names.NAME_LENGTH}",
        found=f"{{{number('size(self.metadata.name)', 3)}}} characters",
        allowed=f"at most {names.NAME_LENGTH}, since pods are called <name>-<revision>-xxxxx",
        action="choose a shorter name",
        field_path=".metadata.name",
    ),
    Rule(
        rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        found="{self.metadata.name}",
        allowed="lower-case letters, digits and dashes, beginning with a letter, since Services are called after it",
        action="choose such a name",
        field_path=".metadata.name",
    ),
)

_SOURCE = r"^(hf://[A-Za-z0-9][\\w.-]*/[A-Za-z0-9][\\w.-]*|pvc://[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[^:]+|/[^:]+)$"

SOURCE_RULES = (
    Rule(
        rule=f"self.source.matches('{_SOURCE}')",
        found="{self.source}",
        allowed="hf://org/name, pvc://claim/path or an absolute path",
        action="write the source in one of these forms",
        field_path=".source",
    ),
    Rule(
        rule="!self.source.startsWith('hf://') || has(self.revision)",
        found="no revision beside {self.source}",
        allowed="a commit of the repository, 40 hexadecimal digits",
        action="set it, so that all pods load the same weights",
        field_path=".revision",
    ),
    Rule(
        rule="self.source.startsWith('hf://') || !has(self.revision)",
        found="a revision beside {self.source}",
        allowed="none, since only hf:// sources have commits",
        action="remove it",
        field_path=".revision",
    ),
)


# --- spec.model -------------------------------------------------------------------------------------------------------


class ModelSpec(Model):
    """The model that is served."""

    RULES = (
        *SOURCE_RULES,
        Rule(
            rule="(has(self.servedName) ? self.servedName : self.name) == "
            "(has(oldSelf.servedName) ? oldSelf.servedName : oldSelf.name)",
            found="a change of the name that clients send, from "
            "{(has(oldSelf.servedName) ? oldSelf.servedName : oldSelf.name)} to "
            "{(has(self.servedName) ? self.servedName : self.name)}",
            allowed="the same name as before, since old and new pods serve side by side during a replacement",
            action="set servedName to the old name, or make a second object",
        ),
    )

    name: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$")] = Field(
        description="Name of the model, for people and dashboards, and for clients unless servedName is set."
    )
    source: Source = Field(
        description="Where the weights are: hf://org/name (a Hugging Face repository; revision is then needed), "
        "pvc://claim/path (a PersistentVolumeClaim of the namespace, mounted read-only), or an absolute path inside "
        "the image or a volume of the template."
    )
    revision: Commit | None = Field(
        default=None,
        description="Commit of the Hugging Face repository, 40 hexadecimal digits, so that every pod serves the same "
        "weights. Needed for hf:// sources, refused for others.",
    )
    served_name: (
        Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$")] | None
    ) = Field(
        default=None,
        description="Model name that clients send. Absent: the same as name. It cannot change: while a revision "
        "takes over from another, both must answer to one name.",
    )

    @property
    def serves_as(self) -> str:
        """The name clients send."""
        return self.served_name or self.name


# --- spec.speculative -------------------------------------------------------------------------------------------------

Method = Literal["mtp", "eagle", "eagle3", "dflash", "dspark", "draft_model", "ngram"]


class DraftModel(Model):
    """The model that drafts tokens for the target to verify."""

    RULES = SOURCE_RULES

    source: Source = Field(
        description="Where the drafter's weights are: hf://org/name, pvc://claim/path or an absolute path, as in "
        "model.source."
    )
    revision: Commit | None = Field(
        default=None,
        description="Commit of the drafter's Hugging Face repository, 40 hexadecimal digits. Needed for hf:// sources, "
        "refused for others.",
    )


class Rejection(Model):
    """How drafted tokens are accepted."""

    RULES = (
        Rule(
            rule="self.method != 'synthetic' || has(self.acceptanceLength)",
            found="no acceptanceLength",
            allowed="1 to numSpeculativeTokens + 1 with method synthetic",
            action="set it",
            field_path=".acceptanceLength",
        ),
        Rule(
            rule="self.method == 'synthetic' || !has(self.acceptanceLength)",
            found="acceptanceLength with method standard",
            allowed="none, since the target decides",
            action="remove it, or set method to synthetic",
            field_path=".acceptanceLength",
        ),
    )

    method: Literal["standard", "synthetic"] = Field(
        default="standard",
        description="standard: the target decides. synthetic: a fixed acceptance is forced, whatever the target says; "
        "for tests of the machinery on random weights, only with accelerator profile cpu.",
    )
    acceptance_length: Annotated[float, Field(ge=1, le=9)] | None = Field(
        default=None,
        description="Mean number of tokens a step emits under synthetic rejection, from 1 to numSpeculativeTokens + 1. "
        "Needed for synthetic, refused for standard.",
    )


class Speculative(Model):
    """How tokens are drafted and verified."""

    RULES = (
        Rule(
            rule="self.method in ['mtp', 'ngram'] || has(self.draftModel)",
            found="no drafter for method {self.method}",
            allowed="a draftModel, which this method needs",
            action="set draftModel.source, or take method mtp or ngram",
            field_path=".draftModel",
        ),
        Rule(
            rule="!(self.method in ['mtp', 'ngram']) || !has(self.draftModel)",
            found="a drafter for method {self.method}",
            allowed="none, since this method drafts without a second model",
            action="remove draftModel, or take a method that uses it",
            field_path=".draftModel",
        ),
        Rule(
            rule="!has(self.rejection.acceptanceLength) || "
            "self.rejection.acceptanceLength <= double(self.numSpeculativeTokens + 1)",
            found="more than numSpeculativeTokens + 1",
            allowed="1 to numSpeculativeTokens + 1, since a step emits no more",
            action="lower it, or raise numSpeculativeTokens",
            field_path=".rejection.acceptanceLength",
        ),
    )

    method: Method = Field(
        description="Drafting method. mtp and ngram draft without a second model; eagle, eagle3, dflash, dspark and "
        "draft_model need draftModel."
    )
    draft_model: DraftModel | None = Field(
        default=None,
        description="The drafter. Needed for eagle, eagle3, dflash, dspark and draft_model, refused for mtp and ngram.",
    )
    num_speculative_tokens: Annotated[int, Field(ge=1, le=8)] = Field(
        description="Tokens drafted a step (K), 1 to 8. A step emits at most K + 1."
    )
    attention_backend: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Z][A-Z0-9_]*$")] | None = Field(
        default=None,
        description="Attention backend of the drafter, by the engine's name for it (TRITON_ATTN, "
        "FLASH_ATTN, FLASHINFER, ...). Absent: the engine chooses.",
    )
    rejection: Rejection = Field(default_factory=Rejection, description="How drafted tokens are accepted.")


# --- spec.engine ------------------------------------------------------------------------------------------------------

EngineLine = Literal["0.33.0", "0.30.0"]


class KeyRef(Model):
    """A key of a Secret or ConfigMap in the object's namespace."""

    name: ObjectName = Field(description="Name of the Secret or ConfigMap, in the object's namespace.")
    key: Key = Field(description="Key inside it.")
    optional: bool | None = Field(
        default=None, description="True: the pod starts without the variable if the object or key is absent."
    )


class FieldRef(Model):
    """A field of the pod."""

    field_path: Annotated[str, Field(min_length=1, max_length=256)] = Field(
        description="Path of the pod's field, such as status.podIP or metadata.labels['key']."
    )


class EnvSource(Model):
    """Where an environment variable's value comes from."""

    RULES = (
        Rule(
            rule=f"{_given('secretKeyRef', 'configMapKeyRef', 'fieldRef')} == 1",
            found=f"{{{number(_given('secretKeyRef', 'configMapKeyRef', 'fieldRef'), 1)}}} sources",
            allowed="exactly one of secretKeyRef, configMapKeyRef and fieldRef",
            action="keep one",
        ),
    )

    secret_key_ref: KeyRef | None = Field(default=None, description="A key of a Secret.")
    config_map_key_ref: KeyRef | None = Field(default=None, description="A key of a ConfigMap.")
    field_ref: FieldRef | None = Field(default=None, description="A field of the pod.")


class EnvVar(Model):
    """One environment variable of the engine."""

    RULES = (
        Rule(
            rule="!(has(self.value) && has(self.valueFrom))",
            found="value and valueFrom for {self.name}",
            allowed="one of the two",
            action="remove one",
        ),
        Rule(
            rule=f"!self.name.startsWith('{names.ENV_PREFIX}')",
            found="{self.name}",
            allowed=f"names without the prefix {names.ENV_PREFIX}, which is the operator's",
            action="remove it, or rename it",
            field_path=".name",
        ),
    )

    name: Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] = Field(
        description="Name of the variable. Names that begin with SPECDECODE_ belong to the operator."
    )
    value: Annotated[str, Field(max_length=32768)] | None = Field(
        default=None, description="Its value. $(NAME) expands to a variable that stands before it."
    )
    value_from: EnvSource | None = Field(default=None, description="Where the value comes from instead.")


class Engine(Model):
    """The engine's image and how it is started."""

    RULES = (
        Rule(
            rule="self.image.matches('^[a-z0-9][-A-Za-z0-9._:/]*@sha256:[0-9a-f]{64}$')",
            found="{self.image}",
            allowed="an image by digest, repository@sha256:<64 hexadecimal digits>, since a tag can move",
            action="write the digest that the registry shows for the tag",
            field_path=".image",
        ),
    )

    version: EngineLine = Field(description="The engine's release line: what its arguments and metrics are called.")
    image: Annotated[str, Field(min_length=1, max_length=512)] = Field(
        description="Image by digest: repository@sha256:<64 hexadecimal digits>. A tag can move, and then two pods of "
        "one revision run different code."
    )
    args: Annotated[tuple[Annotated[str, Field(max_length=4096)], ...], Field(max_length=128)] = Field(
        default=(),
        description="Further arguments of the engine's serve command, after the operator's own. Arguments that say "
        "what a field of this object says are refused.",
        json_schema_extra=atomic(),
    )
    env: Annotated[tuple[EnvVar, ...], Field(max_length=128)] = Field(
        default=(),
        description="Environment variables of the engine; they win over those of the accelerator profile.",
        json_schema_extra=keyed("name"),
    )


# --- spec.parallelism -------------------------------------------------------------------------------------------------


class Parallelism(Model):
    """How one replica spreads over its GPUs. tensor x pipeline x data is what it occupies."""

    tensor: Annotated[int, Field(ge=1, le=1024)] = Field(default=1, description="Tensor parallel size.")
    pipeline: Annotated[int, Field(ge=1, le=1024)] = Field(default=1, description="Pipeline parallel size.")
    data: Annotated[int, Field(ge=1, le=1024)] = Field(default=1, description="Data parallel size.")
    expert: bool = Field(
        default=False, description="Expert parallelism: experts are spread over all tensor and data ranks."
    )

    @property
    def world_size(self) -> int:
        """GPUs that one replica uses."""
        return self.tensor * self.pipeline * self.data


# --- spec.accelerator -------------------------------------------------------------------------------------------------

ProfileName = Literal["gb200", "h200", "cpu"]


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
    )

    key: Annotated[str, Field(max_length=317)] | None = Field(
        default=None, description="Taint key. Absent, with operator Exists: all taints."
    )
    operator: Literal["Exists", "Equal"] | None = Field(default=None, description="Exists or Equal (the default).")
    value: LabelValue | None = Field(default=None, description="Taint value, for Equal.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        default=None, description="Taint effect. Absent: all effects."
    )
    toleration_seconds: Annotated[int, Field(ge=0, le=86400)] | None = Field(
        default=None, description="For NoExecute: seconds until the pod is evicted."
    )


class ProbeTiming(Model):
    """When a probe gives up. What is asked stays the operator's."""

    period_seconds: Annotated[int, Field(ge=1, le=300)] | None = Field(
        default=None, description="Seconds between two tries. Absent: the profile's."
    )
    timeout_seconds: Annotated[int, Field(ge=1, le=300)] | None = Field(
        default=None, description="Seconds until a try has failed. Absent: the profile's."
    )
    failure_threshold: Annotated[int, Field(ge=1, le=10000)] | None = Field(
        default=None, description="Failed tries in a row until the probe has failed. Absent: the profile's."
    )


class Probes(Model):
    """Timing of the engine's probes, where the profile's does not fit."""

    startup: ProbeTiming | None = Field(
        default=None, description="Startup: how long loading weights and capturing graphs may take."
    )
    liveness: ProbeTiming | None = Field(default=None, description="Liveness: when a hung engine is restarted.")
    readiness: ProbeTiming | None = Field(default=None, description="Readiness: when a pod leaves its Services.")


class Accelerator(Model):
    """What the pods run on: a profile, and what differs from it here."""

    RULES = (
        Rule(
            rule="self.profile != 'cpu' || !has(self.gpusPerNode) || self.gpusPerNode == 0",
            found=f"{{{number('self.gpusPerNode', 2)}}} GPUs with profile cpu",
            allowed="0",
            action="remove gpusPerNode, or take another profile",
            field_path=".gpusPerNode",
        ),
    )

    profile: ProfileName = Field(
        description="What a node looks like: its labels, taints, architecture, GPUs, shared memory, communication "
        "settings, security context and probe timing. gb200: a four-GPU tray of a GB200 rack. h200: an eight-GPU "
        "server. cpu: no GPU, for trying things out."
    )
    gpus_per_node: Annotated[int, Field(ge=0, le=72)] | None = Field(
        default=None,
        description="GPUs that a replica takes of each node. Absent: all of the profile's (gb200: 4, h200: 8, cpu: 0).",
    )
    nodes_per_replica: Annotated[int, Field(ge=1, le=64)] = Field(
        default=1,
        description="Nodes that one replica spans. More than 1 needs the LeaderWorkerSet API, and on gb200 "
        "a ComputeDomain.",
    )
    node_labels: Labels | None = Field(
        default=None,
        description="Labels a node must have, instead of the profile's. template.nodeSelector adds to these.",
    )
    arch: Literal["amd64", "arm64"] | None = Field(
        default=None,
        description="CPU architecture of the nodes, instead of the profile's (gb200: arm64, h200: amd64, cpu: any).",
    )
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=16)] | None = Field(
        default=None,
        description="Taints the pods tolerate, instead of the profile's. template.tolerations adds to these.",
        json_schema_extra=atomic(),
    )
    runtime_class_name: Annotated[str, Field(max_length=253)] | None = Field(
        default=None,
        description="RuntimeClass of the pods, instead of the profile's (gb200, h200: nvidia). Empty: "
        "none, where the node's default runtime brings the GPUs.",
    )
    shm_size: Quantity | None = Field(
        default=None, description="Size of /dev/shm, instead of the profile's. It counts against the memory limit."
    )
    probes: Probes | None = Field(default=None, description="Probe timing that differs from the profile's.")


# --- spec.template ----------------------------------------------------------------------------------------------------


class Resources(Model):
    """Resources of the engine's container, over the profile's defaults. GPUs come from accelerator.gpusPerNode."""

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
            rule=f"{_given(*_VOLUME_SOURCES)} == 1",
            found=f"{{{number(_given(*_VOLUME_SOURCES), 1)}}} sources for volume {{self.name}}",
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
            rule=f"!(self.mountPath in ['/dev/shm', '/tmp', '{names.CACHE_PATH}'])",
            found="{self.mountPath}",
            allowed="paths other than /dev/shm (accelerator.shmSize), /tmp and "
            f"{names.CACHE_PATH} (a volume called {names.VOLUME_CACHE}), which are the operator's",
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
_LABEL_KEY = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"


class Template(Model):
    """What else the pods carry."""

    RULES = (
        Rule(
            rule="!has(self.labels) || self.labels.all(key, key.matches('" + _LABEL_KEY + "'))",
            found="a key that is no label key",
            allowed="an optional DNS prefix and slash, then at most 63 letters, digits, dashes, dots and underscores",
            action="correct the key",
            field_path=".labels",
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


# --- spec.drain -------------------------------------------------------------------------------------------------------


class Drain(Model):
    """How a pod leaves without cutting a stream."""

    RULES = (
        Rule(
            rule="self.terminationGracePeriodSeconds > self.preStopSeconds + self.shutdownTimeoutSeconds",
            found=f"{{{number('self.terminationGracePeriodSeconds', 5)}}} s",
            allowed="more than preStopSeconds + shutdownTimeoutSeconds = "
            f"{{{number('self.preStopSeconds + self.shutdownTimeoutSeconds', 4)}}} s",
            action="raise it, or lower the others: the engine would be killed while streams still run",
            field_path=".terminationGracePeriodSeconds",
        ),
    )

    pre_stop_seconds: Annotated[int, Field(ge=0, le=600)] = Field(
        default=15, description="Seconds a pod goes on serving after it was told to go, while routers take it out."
    )
    shutdown_timeout_seconds: Annotated[int, Field(ge=0, le=7200)] = Field(
        default=120, description="Seconds the engine then gives requests in flight to finish."
    )
    termination_grace_period_seconds: Annotated[int, Field(ge=1, le=10800)] = Field(
        default=150,
        description="Seconds until the pod is killed, whatever it does. More than preStopSeconds and "
        "shutdownTimeoutSeconds together.",
    )


# --- spec.traffic -----------------------------------------------------------------------------------------------------


class GatewayRef(Model):
    """The Gateway that brings requests."""

    name: ObjectName = Field(description="Name of the Gateway.")
    namespace: LabelName | None = Field(default=None, description="Its namespace. Absent: the object's own.")
    section_name: ObjectName | None = Field(default=None, description="One listener of it. Absent: all that allow it.")


class Traffic(Model):
    """How requests reach the pods."""

    RULES = (
        Rule(
            rule="!self.path.matches('//|/[.][.]?(/|$)|%2[fF]')",
            found="{self.path}",
            allowed="a path without //, /./, /../ or an encoded slash",
            action="write the plain path",
            field_path=".path",
        ),
    )

    gateway: GatewayRef = Field(description="The Gateway that brings requests.")
    hostnames: Annotated[
        tuple[
            Annotated[
                str,
                Field(
                    min_length=1,
                    max_length=253,
                    pattern=r"^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
                ),
            ],
            ...,
        ],
        Field(max_length=16),
    ] = Field(
        default=(),
        description="Hostnames that lead here. Absent: any that the listener allows.",
        json_schema_extra=as_set(),
    )
    path: Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^/[-A-Za-z0-9/._~!$&'()*+,;=:@%]*$")] = Field(
        default="/", description="Path prefix of the requests that lead here."
    )
    request_timeout: Duration = Field(
        default="0s",
        description="Time limit of one request at the gateway. 0s: none, since a stream lasts as long as its answer.",
    )
    settle_seconds: Annotated[int, Field(ge=0, le=600)] = Field(
        default=5,
        description="Seconds a pod must have been ready in its EndpointSlice before a new revision enters the route.",
    )


# --- spec.metrics -----------------------------------------------------------------------------------------------------


class Metrics(Model):
    """How the pods are measured."""

    scrape_interval: PrometheusDuration = Field(default="10s", description="Time between two scrapes of a pod.")


# --- spec -------------------------------------------------------------------------------------------------------------


class Spec(Model):
    """What is wanted."""

    RULES = (
        Rule(
            rule="self.speculative.rejection.method != 'synthetic' || self.accelerator.profile == 'cpu'",
            found="synthetic with profile {self.accelerator.profile}",
            allowed="standard, since synthetic rejection emits tokens that the target did not choose",
            action="set it to standard, or take profile cpu for a test",
            field_path=".speculative.rejection.method",
        ),
    )

    model: ModelSpec = Field(description="The model that is served.")
    speculative: Speculative = Field(description="How tokens are drafted and verified.")
    engine: Engine = Field(description="The engine's image and how it is started.")
    parallelism: Parallelism = Field(
        default_factory=Parallelism,
        description="How one replica spreads over its GPUs. tensor x pipeline x data is what it occupies.",
    )
    accelerator: Accelerator = Field(description="What the pods run on: a profile, and what differs from it here.")
    replicas: Annotated[int, Field(ge=0, le=1000)] = Field(
        default=1, description="Replicas (slots). Belongs to whoever scales the object: kubectl scale, an autoscaler."
    )
    min_available: Annotated[int, Field(ge=0, le=1000)] | None = Field(
        default=None,
        description="Replicas that keep serving through a replacement or a node's drain. Absent: replicas - 1.",
    )
    template: Template = Field(default_factory=Template, description="What else the pods carry.")
    drain: Drain = Field(default_factory=Drain, description="How a pod leaves without cutting a stream.")
    traffic: Traffic | None = Field(default=None, description="How requests reach the pods. Absent: by Service only.")
    metrics: Metrics = Field(default_factory=Metrics, description="How the pods are measured.")

    @property
    def min_available_or_default(self) -> int:
        """Replicas that must keep serving: as asked, else all but one."""
        return max(self.replicas - 1, 0) if self.min_available is None else self.min_available


# --- status -----------------------------------------------------------------------------------------------------------


class Condition(Model):
    """One aspect of the object's state."""

    type: Annotated[str, Field(min_length=1, max_length=316)] = Field(
        description="Which aspect: Ready, Progressing or Routable."
    )
    status: Literal["True", "False", "Unknown"] = Field(description="True, False or Unknown.")
    reason: Annotated[str, Field(min_length=1, max_length=1024)] = Field(description="Why, in one word for programs.")
    message: Annotated[str, Field(max_length=32768)] = Field(description="Why, in sentences for people.")
    observed_generation: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="Generation of the object that this was said about."
    )
    last_transition_time: datetime = Field(description="When status last changed.")


class ProfileStatus(Model):
    """The accelerator as it was understood, overrides included."""

    name: Text = Field(description="Name of the profile.")
    arch: Text | None = Field(default=None, description="CPU architecture of the nodes.")
    gpus_per_node: int = Field(description="GPUs a replica takes of each node.")
    nodes_per_replica: int = Field(description="Nodes a replica spans.")
    gpus_per_replica: int = Field(description="GPUs a replica has.")


class RevisionStatus(Model):
    """One revision that holds slots."""

    revision: Text = Field(description="Hash of what shapes its pods; the suffix of its children's names.")
    engine_version: Text = Field(description="Its engine's release line.")
    image: Text = Field(description="Its image.")
    slots: Annotated[int, Field(ge=0)] = Field(description="Replicas it holds.")
    ready: Annotated[int, Field(ge=0)] = Field(description="How many of them are Ready.")
    weight: Annotated[int, Field(ge=0)] = Field(description="Its weight in the route.")


class RunStatus(Model):
    """The replacement that is under way."""

    step: Text = Field(description="Slots moved of slots to move, as in 1/3.")
    phase: Text = Field(description="What is being done: Swapping or Settling.")
    since: datetime = Field(description="When this phase began.")
    message: Text = Field(default="", description="What is awaited, in a sentence.")


class Status(Model):
    """What is."""

    observed_generation: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="Generation of the object that this status is about."
    )
    conditions: Annotated[tuple[Condition, ...], Field(max_length=16)] = Field(
        default=(), description="Ready, Progressing, Routable.", json_schema_extra=keyed("type")
    )
    replicas: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="Replicas there are, of all revisions."
    )
    ready_replicas: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="Replicas that are Ready, of all revisions."
    )
    selector: Text | None = Field(
        default=None, description="Label selector of all pods; it never changes, so an autoscaler can rely on it."
    )
    profile: ProfileStatus | None = Field(default=None, description="The accelerator as it was understood.")
    stable: RevisionStatus | None = Field(default=None, description="The revision that serves.")
    candidate: RevisionStatus | None = Field(default=None, description="The revision that is taking over.")
    run: RunStatus | None = Field(default=None, description="The replacement that is under way.")


# --- the object -------------------------------------------------------------------------------------------------------


class SpecDecodeDeployment(Model):
    """An object as read from the API server."""

    name: str
    namespace: str
    uid: str
    generation: int
    deletion_timestamp: str | None
    annotations: Mapping[str, str]
    spec: Spec
    status: Status

    @classmethod
    def parse(cls, obj: Mapping[str, Any]) -> Self:
        """Read an object's dict.

        Raises:
            InvalidObject: the object breaks its own schema (written under an older or edited CRD).
        """
        metadata = obj["metadata"]
        try:
            spec = Spec.model_validate(obj.get("spec") or {})
        except ValidationError as error:
            raise InvalidObject(_field_errors(error, "spec")) from None
        try:
            status = Status.model_validate(obj.get("status") or {})
        except ValidationError as error:
            raise InvalidObject(_field_errors(error, "status")) from None
        return cls(
            name=metadata["name"],
            namespace=metadata["namespace"],
            uid=metadata["uid"],
            generation=metadata.get("generation", 0),
            deletion_timestamp=metadata.get("deletionTimestamp"),
            annotations=metadata.get("annotations") or {},
            spec=spec,
            status=status,
        )


def _field_errors(error: ValidationError, root: str) -> list[FieldError]:
    """Pydantic's errors without the values it found: an environment variable's may be a secret."""
    return [
        FieldError(
            path=field_path(root, item["loc"]),
            found="nothing" if item["type"] == "missing" else "a value that the schema refuses",
            allowed=item["msg"][:1].lower() + item["msg"][1:],
            action=f"correct the field (kubectl explain {names.SHORT}.{root} lists what it takes)",
        )
        for item in error.errors(include_url=False, include_input=False, include_context=False)
    ]


def field_path(root: str, loc: tuple[int | str, ...]) -> str:
    """`("env", 0, "name")` under `spec` as `spec.env[0].name`."""
    path = root
    for part in loc:
        path += f"[{part}]" if isinstance(part, int) else f".{part}"
    return path
