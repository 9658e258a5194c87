"""What a node looks like, by name: the knowledge that a spec leaves out when it says `profile: gb200`.

`resolve` lays the spec's overrides over the profile's own values. A profile's values enter a pod only when its revision
is first rendered, so changing one here restarts nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from specdecode_operator.api import names
from specdecode_operator.api.hardware import Accelerator, ProbeTiming, ProfileName
from specdecode_operator.api.status import ProfileStatus
from specdecode_operator.api.template import Toleration


@dataclass(frozen=True)
class ProbeSettings:
    """When a probe tries, and when it gives up. Seconds, and tries in a row."""

    period_seconds: int
    timeout_seconds: int
    failure_threshold: int


@dataclass(frozen=True)
class Profile:
    """An accelerator profile, overrides applied."""

    name: ProfileName
    gpus_per_node: int
    arch: str | None
    """CPU architecture of the nodes; None: any."""
    node_labels: Mapping[str, str]
    tolerations: tuple[Toleration, ...]
    runtime_class_name: str | None
    shm_size: str
    startup: ProbeSettings
    liveness: ProbeSettings
    readiness: ProbeSettings
    base_requests: Mapping[str, str]
    """Default requests of a container without GPUs."""
    limits: Mapping[str, str]
    env: Mapping[str, str]
    """Environment of a replica within one node."""
    fabric_env: Mapping[str, str]
    """Environment, over `env`, of a replica that spans nodes."""
    fabric_capabilities: tuple[str, ...]
    """Capabilities of a replica that spans nodes: RDMA pins memory."""
    fabric_domain: bool
    """Nodes of one replica must share an NVLink domain, through a ComputeDomain."""
    read_only_root: bool
    nodes_per_replica: int = 1

    @property
    def requests(self) -> Mapping[str, str]:
        """Default requests of the container: by its GPUs, if it has some."""
        if not self.gpus_per_node:
            return self.base_requests
        return {"cpu": str(_CPUS_PER_GPU * self.gpus_per_node), "memory": f"{_GIB_PER_GPU * self.gpus_per_node}Gi"}

    @property
    def gpus_per_replica(self) -> int:
        """GPUs that one replica has."""
        return self.gpus_per_node * self.nodes_per_replica

    @property
    def spans_nodes(self) -> bool:
        """Whether a replica is more than one pod."""
        return self.nodes_per_replica > 1

    @property
    def start_seconds(self) -> int:
        """How long a pod may take to get ready: after that its startup probe ends it."""
        return self.startup.period_seconds * self.startup.failure_threshold

    def status(self) -> ProfileStatus:
        """As the object's status shows it."""
        return ProfileStatus(
            name=self.name,
            arch=self.arch,
            gpus_per_node=self.gpus_per_node,
            nodes_per_replica=self.nodes_per_replica,
            gpus_per_replica=self.gpus_per_replica,
        )


_GPU_TAINT: Final = Toleration(key=names.GPU, operator="Exists", effect="NoSchedule")
_ARM_TAINT: Final = Toleration(key="kubernetes.io/arch", operator="Equal", value="arm64", effect="NoSchedule")

# Loading hundreds of gigabytes and capturing graphs has taken 45 minutes; kserve#5062 and castai#1111 began with less.
_GPU_STARTUP: Final = ProbeSettings(period_seconds=10, timeout_seconds=5, failure_threshold=270)
_GPU_LIVENESS: Final = ProbeSettings(period_seconds=30, timeout_seconds=10, failure_threshold=3)
_GPU_READINESS: Final = ProbeSettings(period_seconds=5, timeout_seconds=5, failure_threshold=3)

_CPUS_PER_GPU: Final = 4
_GIB_PER_GPU: Final = 32

_GPU_CACHES: Final = {
    "TRITON_CACHE_DIR": f"{names.CACHE_PATH}/triton",
    "CUDA_CACHE_PATH": f"{names.CACHE_PATH}/cuda",
    "FLASHINFER_WORKSPACE_BASE": f"{names.CACHE_PATH}/flashinfer",
}

PROFILES: Final[Mapping[str, Profile]] = {
    "gb200": Profile(
        name="gb200",
        gpus_per_node=4,
        arch="arm64",
        node_labels={"nvidia.com/gpu.product": "NVIDIA-GB200"},
        tolerations=(_GPU_TAINT, _ARM_TAINT),
        runtime_class_name="nvidia",
        shm_size="16Gi",
        startup=_GPU_STARTUP,
        liveness=_GPU_LIVENESS,
        readiness=_GPU_READINESS,
        base_requests={},
        limits={},
        # Within a tray there is no IMEX channel: multi-node NVLink would ask for one and fail.
        env={**_GPU_CACHES, "NCCL_CUMEM_ENABLE": "1", "NCCL_NVLS_ENABLE": "1", "NCCL_MNNVL_ENABLE": "0"},
        # Cumem off would turn multi-node NVLink off with it: vllm#16992.
        fabric_env={
            "NCCL_MNNVL_ENABLE": "1",
            "NCCL_SOCKET_IFNAME": "eth0",
            "GLOO_SOCKET_IFNAME": "eth0",
            "NVIDIA_GDRCOPY": "1",
            "UCX_CUDA_IPC_ENABLE_MNNVL": "y",
            "UCX_TLS": "cuda_copy,cuda_ipc,tcp",
        },
        fabric_capabilities=("IPC_LOCK",),
        fabric_domain=True,
        # The container toolkit's hook writes into the root file system.
        read_only_root=False,
    ),
    "h200": Profile(
        name="h200",
        gpus_per_node=8,
        arch="amd64",
        node_labels={"nvidia.com/gpu.product": "NVIDIA-H200"},
        tolerations=(_GPU_TAINT,),
        runtime_class_name="nvidia",
        shm_size="16Gi",
        startup=_GPU_STARTUP,
        liveness=_GPU_LIVENESS,
        readiness=_GPU_READINESS,
        base_requests={},
        limits={},
        env={**_GPU_CACHES, "NCCL_CUMEM_ENABLE": "1", "NCCL_NVLS_ENABLE": "1"},
        fabric_env={"NCCL_SOCKET_IFNAME": "eth0", "GLOO_SOCKET_IFNAME": "eth0"},
        fabric_capabilities=(),
        fabric_domain=False,
        read_only_root=False,
    ),
    "cpu": Profile(
        name="cpu",
        gpus_per_node=0,
        arch=None,
        node_labels={},
        tolerations=(),
        runtime_class_name=None,
        shm_size="1Gi",
        startup=ProbeSettings(period_seconds=5, timeout_seconds=5, failure_threshold=180),
        # A CPU engine compiles and interprets kernels on the cores that answer the probe.
        liveness=ProbeSettings(period_seconds=30, timeout_seconds=20, failure_threshold=3),
        readiness=ProbeSettings(period_seconds=5, timeout_seconds=10, failure_threshold=3),
        base_requests={"cpu": "500m", "memory": "2Gi"},
        limits={"memory": "8Gi"},
        env={},
        fabric_env={},
        fabric_capabilities=(),
        fabric_domain=False,
        read_only_root=True,
    ),
}


def resolve(accelerator: Accelerator) -> Profile:
    """The profile that `accelerator` names, with its overrides."""
    base = PROFILES[accelerator.profile]
    probes = accelerator.probes
    given = accelerator.runtime_class_name
    return replace(
        base,
        gpus_per_node=base.gpus_per_node if accelerator.gpus_per_node is None else accelerator.gpus_per_node,
        nodes_per_replica=accelerator.nodes_per_replica,
        arch=accelerator.arch or base.arch,
        node_labels=base.node_labels if accelerator.node_labels is None else accelerator.node_labels,
        tolerations=base.tolerations if accelerator.tolerations is None else accelerator.tolerations,
        runtime_class_name=base.runtime_class_name if given is None else given or None,
        shm_size=base.shm_size if accelerator.shm_size is None else str(accelerator.shm_size),
        startup=_timed(base.startup, probes.startup if probes else None),
        liveness=_timed(base.liveness, probes.liveness if probes else None),
        readiness=_timed(base.readiness, probes.readiness if probes else None),
    )


def _timed(settings: ProbeSettings, timing: ProbeTiming | None) -> ProbeSettings:
    """`settings` with the fields that `timing` sets."""
    return settings if timing is None else replace(settings, **timing.model_dump(exclude_none=True))
