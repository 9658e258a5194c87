"""One table of every name that the operator, the chart, the tests and the dashboards share.

A name that is written in two places drifts; one that is written here can be looked up.
"""

from typing import Final

# --- The resource -----------------------------------------------------------------------------------------------------
GROUP: Final = "specdecode.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "SpecDecodeDeployment"
PLURAL: Final = "specdecodedeployments"
SINGULAR: Final = "specdecodedeployment"
SHORT: Final = "sdd"
CRD_NAME: Final = f"{PLURAL}.{GROUP}"

FIELD_MANAGER: Final = "specdecode-operator"
"""Field manager of every server-side apply, and the reporting component of events."""

# --- Labels -----------------------------------------------------------------------------------------------------------
LABEL_NAME: Final = f"{GROUP}/name"
"""Name of the owning object; on every child and pod, and alone in the constant selector."""

LABEL_REVISION: Final = f"{GROUP}/revision"
LABEL_SERVES: Final = f"{GROUP}/serves"
"""`true` on pods that answer requests: all but the follower pods of a replica that spans nodes. `false` on a pod that
was taken out of its Services, since it isn't what its revision says."""

LABEL_RUN: Final = f"{GROUP}/run"
"""The canary's run that a ConfigMap is of."""

LABEL_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
LABEL_APP_NAME: Final = "app.kubernetes.io/name"
LABEL_APP_INSTANCE: Final = "app.kubernetes.io/instance"
MANAGED_BY: Final = "specdecode-operator"
APP_NAME: Final = "specdecode-engine"

MANAGED_SELECTOR: Final = f"{LABEL_MANAGED_BY}={MANAGED_BY}"
"""Label selector of the operator's watches on children and pods."""

# --- Annotations ------------------------------------------------------------------------------------------------------
ANNOTATION_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
"""Tells the ReplicaSet controller which pod goes first: the lowest cost."""

ANNOTATION_ATTESTED: Final = f"{GROUP}/attested"
"""On a pod: the container whose attestation was what the revision says. A restarted operator asks again, but takes no
pod for unknown meanwhile."""

ANNOTATION_REQUEST: Final = f"{GROUP}/request"
"""On the object: what somebody asks of its canary, as JSON {id, verb, runID, by, reason}. Each id is applied once."""

ANNOTATION_ATTRIBUTION: Final = f"{GROUP}/attribution"
"""On the object, while `kubectl-specdecode attribute` walks its optimizations: how far it is, as JSON. The operator
doesn't read it."""

ANNOTATION_CONTAINER: Final = "kubectl.kubernetes.io/default-container"

# --- Pods -------------------------------------------------------------------------------------------------------------
CONTAINER: Final = "engine"
PORT: Final = 8000
PORT_NAME: Final = "http"
METRICS_PATH: Final = "/metrics"
HEALTH_PATH: Final = "/health"
READY_PATH: Final = "/specdecode/ready"
"""200 once the model is loaded and this process' own check of its files has passed."""

STOCK_READY_PATH: Final = "/v1/models"
"""What stands for it on an engine without our package."""

ATTESTATION_PATH: Final = "/specdecode/attestation"
GPU: Final = "nvidia.com/gpu"

VOLUME_SHM: Final = "shm"
VOLUME_TMP: Final = "tmp"
VOLUME_CACHE: Final = "cache"
"""Model and compilation caches. A volume of this name in the template takes the place of the emptyDir."""

CLAIM_VOLUME_PREFIX: Final = "claim-"
CACHE_PATH: Final = "/var/cache/specdecode"
CLAIMS_PATH: Final = "/mnt/claims"
"""A claim named by a pvc:// source is mounted read-only at `<CLAIMS_PATH>/<claim>`."""

ENV_PREFIX: Final = "SPECDECODE_"
"""Environment variables with this prefix belong to the operator."""

ENV_EXPECT_MANIFEST: Final = f"{ENV_PREFIX}EXPECT_MANIFEST"
"""Digest of the manifest that the engine's files must have; with any other it doesn't start."""

ENV_DISABLE: Final = f"{ENV_PREFIX}DISABLE"
"""Optimizations that are switched off, separated by commas."""

# --- Multi-node replicas ----------------------------------------------------------------------------------------------
LWS_API_VERSION: Final = "leaderworkerset.x-k8s.io/v1"
LWS_GROUP_KEY: Final = "leaderworkerset.sigs.k8s.io/group-key"
LWS_GROUP_INDEX: Final = "leaderworkerset.sigs.k8s.io/group-index"
LWS_WORKER_INDEX: Final = "leaderworkerset.sigs.k8s.io/worker-index"
"""Of a pod within its group; the leader has 0."""
COMPUTE_DOMAIN_API_VERSION: Final = "resource.nvidia.com/v1beta1"
LABEL_CLIQUE: Final = "nvidia.com/gpu.clique"
"""Trays with the same value share one NVLink domain."""

# --- Other groups -----------------------------------------------------------------------------------------------------
GATEWAY_API_VERSION: Final = "gateway.networking.k8s.io/v1"
MONITORING_API_VERSION: Final = "monitoring.coreos.com/v1"

# --- Prometheus target labels: PodMonitor, local scrape rules and queries are made from this table -------------------
TARGET_LABELS: Final[dict[str, str]] = {
    "namespace": "__meta_kubernetes_namespace",
    "pod": "__meta_kubernetes_pod_name",
    "pod_uid": "__meta_kubernetes_pod_uid",
    "node": "__meta_kubernetes_pod_node_name",
    "specdecode_name": "__meta_kubernetes_pod_label_specdecode_io_name",
    "specdecode_revision": "__meta_kubernetes_pod_label_specdecode_io_revision",
}

# --- The engines' metrics, by the names that a query asks for --------------------------------------------------------
METRIC_SPANS: Final = (
    "specdecode_propose_host_seconds",
    "specdecode_drafter_gpu_seconds",
    "specdecode_propose_gpu_seconds",
    "specdecode_draft_rebuild_host_seconds",
    "specdecode_input_prep_host_seconds",
    "specdecode_target_forward_gpu_seconds",
    "specdecode_probe_host_seconds",
    "specdecode_probe_device_seconds",
)
METRIC_ACCEPTANCE: Final = "specdecode_acceptance_length"
METRIC_FINISHED: Final = "specdecode_requests_finished_total"
METRIC_DROPPED: Final = "specdecode_samples_dropped_total"
METRIC_ENGINE_INFO: Final = "specdecode_engine_info"
METRIC_START: Final = "process_start_time_seconds"
"""Of prometheus_client itself; it leaves it out where several processes share their metrics."""

METRIC_OWN_START: Final = "specdecode_start_time_seconds"
"""What stands for it then, from our package: when the engine's worker began; 0 until its first sampled step."""

# --- Conditions -------------------------------------------------------------------------------------------------------
CONDITION_READY: Final = "Ready"
"""Enough slots of the serving revision are Ready to serve."""

CONDITION_PROGRESSING: Final = "Progressing"
"""True while a revision is taking slots or replicas change; False with a reason when nothing can move."""

CONDITION_ATTESTED: Final = "Attested"
"""Every pod that serves runs the files that its revision says; Unknown where nothing can say so."""

CONDITION_ROUTABLE: Final = "Routable"
"""The route is accepted by its gateway at its current generation, and some revision is in it."""

CONDITION_METRICS: Final = "MetricsAvailable"
"""The metrics that a canary needs come; only under strategy Canary."""

CONDITION_ROLLOUT: Final = "RolloutHealthy"
"""The canary goes on, or ended well; False while somebody has to decide. Only under strategy Canary."""

CANARY_CONDITIONS: Final = (CONDITION_METRICS, CONDITION_ROLLOUT)

CONDITIONS: Final = (
    CONDITION_READY,
    CONDITION_PROGRESSING,
    CONDITION_ATTESTED,
    CONDITION_ROUTABLE,
    *CANARY_CONDITIONS,
)

# Ready
REASON_ALL_READY: Final = "AllSlotsReady"
REASON_MIN_AVAILABLE: Final = "MinimumAvailable"
REASON_NOT_READY: Final = "SlotsNotReady"
REASON_SCALED_TO_ZERO: Final = "ScaledToZero"
REASON_NO_REVISION: Final = "NoServingRevision"

# Progressing
REASON_COMPLETE: Final = "Complete"
REASON_STARTING: Final = "Starting"
REASON_REPLACING: Final = "Replacing"
REASON_SCALING: Final = "Scaling"
REASON_INVALID_SPEC: Final = "InvalidSpec"
REASON_UNSCHEDULABLE: Final = "Unschedulable"
REASON_IMAGE_PULL: Final = "ImagePullFailed"
REASON_ENGINE_CRASHED: Final = "EngineCrashed"
REASON_CONFIG_MISSING: Final = "ConfigMissing"
"""A Secret or ConfigMap that the pod names is absent, or lacks the key."""

REASON_PODS_REFUSED: Final = "PodsRefused"
"""The API server refused the pods: quota, pod security, a missing class."""

REASON_HELD: Final = "HeldByMinAvailable"
"""minAvailable leaves no slot to give up, so no revision can be replaced."""

REASON_NOT_ATTESTED: Final = "NotAttested"
"""A pod doesn't attest what its revision says, or nothing at all: it takes no requests, so nothing moves."""

REASON_CHILD_REFUSED: Final = "ChildRefused"
REASON_NAME_TAKEN: Final = "NameTaken"
"""Something that isn't this object's has the name of a child."""

REASON_CRD_MISSING: Final = "ApiMissing"

# Progressing and RolloutHealthy, under strategy Canary
REASON_PLANNING: Final = "Planning"
"""The stable pods' history is read; nothing has moved."""

REASON_CANARY: Final = "Canary"
REASON_PAUSED: Final = "Paused"
REASON_UNFIT: Final = "CannotBeJudged"
"""No run could decide anything with these slots, this history or this duration, so none is begun."""

REASON_RUN_HELD: Final = "Held"
REASON_RUN_ENDED: Final = "RunEnded"
REASON_REJECTED: Final = "RevisionRejected"
REASON_RUN_GOES_ON: Final = "RunGoesOn"

# MetricsAvailable
REASON_METRICS: Final = "MetricsFound"
REASON_NO_DATA: Final = "NoData"
REASON_BACKEND_DOWN: Final = "BackendDown"

# Attested
REASON_ATTESTED: Final = "FilesAttested"
REASON_DIFFERS: Final = "AttestationDiffers"
REASON_PENDING: Final = "AttestationPending"
REASON_SILENT: Final = "NoAnswer"
REASON_STOCK: Final = "StockEngine"
REASON_UNEXPECTED: Final = "NothingExpected"
"""The revision was frozen by an operator that expected no manifest yet."""

REASON_IMAGE_UNCONFIRMED: Final = "ImageUnconfirmed"

# Routable
REASON_ROUTE_ACCEPTED: Final = "RouteAccepted"
REASON_ROUTE_PENDING: Final = "RoutePending"
REASON_ROUTE_REFUSED: Final = "RouteRefused"
REASON_HOSTNAME_TAKEN: Final = "HostnameTaken"
REASON_NO_ROUTE: Final = "NoTrafficInSpec"
REASON_NOTHING_READY: Final = "NoSlotReady"
REASON_NO_SERVICE: Final = "NoService"
"""The object has no Service of its own: its name is taken, or it was deleted and is about to be made again."""

# --- Bounds -----------------------------------------------------------------------------------------------------------
REVISION_LENGTH: Final = 10
NAME_LENGTH: Final = 40
"""A pod is called `<name>-<revision>-xxxxx`: 40 + 1 + 10 + 6 fits the 63 characters of a label value."""
SPANNING_NAME_LENGTH: Final = 37
"""Followers of a LeaderWorkerSet are a StatefulSet `<name>-<revision>-<group>`, and their label
controller-revision-hash has up to 11 characters more: 37 + 11 + 4 + 11 = 63, with groups up to 999."""


def revision_child(name: str, revision: str) -> str:
    """Name of a child that belongs to one revision: ReplicaSet, ControllerRevision, Service, LeaderWorkerSet."""
    return f"{name}-{revision}"


def run_plan(name: str, run: str) -> str:
    """Name of the ConfigMap with a run's registered plan."""
    return f"{name}-plan-{run}"


def run_record(name: str, run: str) -> str:
    """Name of the ConfigMap with what a run has seen."""
    return f"{name}-run-{run}"


def child_labels(name: str) -> dict[str, str]:
    """Labels of every child of the object `name`."""
    return {
        LABEL_NAME: name,
        LABEL_APP_NAME: APP_NAME,
        LABEL_APP_INSTANCE: name,
        LABEL_MANAGED_BY: MANAGED_BY,
    }


def revision_labels(name: str, revision: str) -> dict[str, str]:
    """Labels of every child and pod of one revision."""
    return {**child_labels(name), LABEL_REVISION: revision}


def selector(name: str) -> str:
    """The constant selector, as `status.selector` holds it: all pods of the object, of whatever revision."""
    return f"{LABEL_NAME}={name}"
