"""What a replica runs on and how it spreads over it (`spec.parallelism`, `spec.accelerator`)."""

from typing import Annotated, Literal

from pydantic import Field

from specdecode_operator.api.cel import Rule, number
from specdecode_operator.api.fields import DNS_NAME, Labels, Model, Quantity, atomic, qualified_keys, spelled
from specdecode_operator.api.template import Toleration


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
        qualified_keys("nodeLabels", "label"),
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
    runtime_class_name: (
        Annotated[
            str,
            Field(
                max_length=253,
                json_schema_extra=spelled(f"{DNS_NAME}|^$", "the name of a RuntimeClass, or nothing"),
            ),
        ]
        | None
    ) = Field(
        default=None,
        description="RuntimeClass of the pods, instead of the profile's (gb200, h200: nvidia). Empty: "
        "none, where the node's default runtime brings the GPUs.",
    )
    shm_size: Quantity | None = Field(
        default=None, description="Size of /dev/shm, instead of the profile's. It counts against the memory limit."
    )
    probes: Probes | None = Field(default=None, description="Probe timing that differs from the profile's.")
