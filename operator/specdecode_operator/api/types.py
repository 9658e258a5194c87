"""Typed view of a SpecDecodeDeployment, and the only source of its CRD.

Read it as the reference of the resource: each description is what `kubectl explain` prints, each bound and default is
what the API server enforces and fills in. Rules that span fields are CEL rules beside the model that owns the fields
(`RULES`); rules that need a profile's defaults or the whole fleet are the planner's. No rule is in two places.

Models are frozen; unknown fields are ignored here, since the API server has pruned or refused them.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError

from specdecode_operator.api import names
from specdecode_operator.api.cel import Rule, given, number
from specdecode_operator.api.errors import FieldError, InvalidObject
from specdecode_operator.api.fields import (
    DNS_LABEL,
    Commit,
    Duration,
    Key,
    LabelName,
    Labels,
    Model,
    ModelName,
    ObjectName,
    PrometheusDuration,
    Quantity,
    Source,
    as_set,
    atomic,
    keyed,
)
from specdecode_operator.api.status import Condition, ProfileStatus, RevisionStatus, RunStatus, Status
from specdecode_operator.api.template import Template, Toleration

__all__ = [
    "ROOT_RULES",
    "Accelerator",
    "Condition",
    "Drain",
    "EnvVar",
    "GatewayRef",
    "Metrics",
    "Model",
    "Parallelism",
    "ProbeTiming",
    "ProfileName",
    "ProfileStatus",
    "RevisionStatus",
    "RunStatus",
    "Spec",
    "SpecDecodeDeployment",
    "Speculative",
    "Status",
    "Template",
    "Toleration",
    "Traffic",
    "field_path",
]


ROOT_RULES = (
    Rule(
        rule=f"size(self.metadata.name) <= {names.NAME_LENGTH}",
        found=f"{{{number('size(self.metadata.name)', 3)}}} characters",
        allowed=f"at most {names.NAME_LENGTH}, since pods are called <name>-<revision>-xxxxx",
        action="choose a shorter name",
        field_path=".metadata.name",
    ),
    Rule(
        rule=f"size(self.metadata.name) <= {names.SPANNING_NAME_LENGTH} "
        f"|| size(self.metadata.name) > {names.NAME_LENGTH} || self.spec.accelerator.nodesPerReplica == 1",
        found=f"{{{number('size(self.metadata.name)', 3)}}} characters with spec.accelerator.nodesPerReplica over 1",
        allowed=f"at most {names.SPANNING_NAME_LENGTH} there, since the pods of a group have longer names",
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

    name: ModelName = Field(
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
    served_name: ModelName | None = Field(
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
            rule=f"{given('secretKeyRef', 'configMapKeyRef', 'fieldRef')} == 1",
            found=f"{{{number(given('secretKeyRef', 'configMapKeyRef', 'fieldRef'), 1)}}} sources",
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


class Optimizations(Model):
    """The optimizations of the decode path that the image carries."""

    disable: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=63, pattern=DNS_LABEL)], ...], Field(max_length=32)
    ] = Field(
        default=(),
        description="Names of optimizations that are switched off; off is the release's own path. A name that the "
        "engine's line doesn't have, or can't switch, is refused. A change replaces the pods.",
        json_schema_extra=as_set(),
    )


class Engine(Model):
    """The engine's image and how it is started."""

    RULES = (
        Rule(
            rule="self.build != 'stock' || !has(self.optimizations) || !has(self.optimizations.disable) || "
            "size(self.optimizations.disable) == 0",
            found=f"{{{number('size(self.optimizations.disable)', 2)}}} names with build stock",
            allowed="none, since a stock engine has nothing of ours to switch off",
            action="remove them, or take an image with the series and build patched",
            field_path=".optimizations.disable",
        ),
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
    build: Literal["patched", "stock"] = Field(
        default="patched",
        description="What the image holds. patched: the engine with the operator's series of patches for its line; a "
        "revision gets requests only once its pods have attested their files. stock: a release as it is; it serves, "
        "but Attested stays Unknown, and there is nothing to switch off.",
    )
    optimizations: Optimizations = Field(
        default_factory=Optimizations, description="The optimizations of the decode path that the image carries."
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
