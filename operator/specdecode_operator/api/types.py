"""Typed view of a SpecDecodeDeployment, and the only source of its CRD.

Read it as the reference of the resource: each description is what `kubectl explain` prints, each bound and default is
what the API server enforces and fills in. Rules that span fields are CEL rules beside the model that owns the fields
(`RULES`); rules that need a profile's defaults or the whole fleet are the planner's. No rule is in two places.

Each part of the spec has a module of its own beside this one; here they come together. Models are frozen; unknown
fields are ignored here, since the API server has pruned or refused them.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError

from specdecode_operator.api import names
from specdecode_operator.api.canary import Gate, Rollout
from specdecode_operator.api.cel import Rule, number
from specdecode_operator.api.decoding import ModelSpec, Speculative
from specdecode_operator.api.engine import Engine
from specdecode_operator.api.errors import FieldError, InvalidObject
from specdecode_operator.api.fields import LabelName, Model, PrometheusDuration, keyed
from specdecode_operator.api.hardware import Accelerator, Parallelism
from specdecode_operator.api.status import Status
from specdecode_operator.api.template import Template
from specdecode_operator.api.traffic import Drain, Traffic

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


class Metrics(Model):
    """How the pods are measured."""

    scrape_interval: PrometheusDuration = Field(default="10s", description="Time between two scrapes of a pod.")
    backend: LabelName | None = Field(
        default=None,
        description="Where a canary reads the metrics: a name from the chart's metricsBackends. Needed by strategy "
        "Canary.",
    )
    window: PrometheusDuration | None = Field(
        default=None, description="Length of a canary's windows, two scrapes or more. Absent: three scrapes."
    )


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
    gates: Annotated[tuple[Gate, ...], Field(max_length=16)] = Field(
        default=(), description="What a canary is judged by.", json_schema_extra=keyed("name")
    )
    rollout: Rollout = Field(default_factory=Rollout, description="How a revision takes over.")

    @property
    def min_available_or_default(self) -> int:
        """Replicas that must keep serving: as asked, else all but one."""
        return max(self.replicas - 1, 0) if self.min_available is None else self.min_available


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
