"""The engine's command line, and which of its flags belong to fields of the spec.

Flags are those of vLLM 0.30.0 and 0.33.0. Its parser takes underscores for dashes, `--flag=value`, `--flag.key value`
for a JSON flag, and any unambiguous abbreviation; a collision is looked for in all these spellings.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from specdecode_operator.api import names
from specdecode_operator.api.decoding import Speculative
from specdecode_operator.api.engine import EnvVar
from specdecode_operator.api.hardware import Parallelism
from specdecode_operator.api.profiles import Profile
from specdecode_operator.api.types import Spec

HF: Final = "hf://"
CLAIM: Final = "pvc://"

# Set by the LeaderWorkerSet controller in every pod of a group.
LEADER_ADDRESS: Final = "$(LWS_LEADER_ADDRESS)"
WORKER_INDEX: Final = "$(LWS_WORKER_INDEX)"


def serve_args(spec: Spec, profile: Profile) -> list[str]:
    """Arguments of `serve` in the pod that answers: model first, the user's last."""
    return [
        location(spec.model.source),
        *_revision(spec),
        "--served-model-name",
        spec.model.serves_as,
        "--port",
        str(names.PORT),
        *_parallel(spec.parallelism),
        *_nodes(profile),
        "--speculative-config",
        speculative_config(spec.speculative),
        "--shutdown-timeout",
        str(spec.drain.shutdown_timeout_seconds),
        *spec.engine.args,
    ]


def follower_args(spec: Spec, profile: Profile) -> list[str]:
    """Arguments of the other pods of a replica that spans nodes: the same engine without a server."""
    return [*serve_args(spec, profile), "--headless"]


def location(source: str) -> str:
    """What the engine loads: a repository name, or a path in the container."""
    if source.startswith(HF):
        return source.removeprefix(HF)
    if source.startswith(CLAIM):
        return f"{names.CLAIMS_PATH}/{source.removeprefix(CLAIM)}"
    return source


def claim_of(source: str) -> str | None:
    """The claim that a pvc:// source names."""
    return source.removeprefix(CLAIM).split("/", 1)[0] if source.startswith(CLAIM) else None


def speculative_config(speculative: Speculative) -> str:
    """The engine's JSON for `speculative`, keys sorted: equal specs must give equal arguments."""
    config: dict[str, Any] = {
        "method": speculative.method,
        "num_speculative_tokens": speculative.num_speculative_tokens,
    }
    if speculative.draft_model is not None:
        config["model"] = location(speculative.draft_model.source)
        if speculative.draft_model.revision is not None:
            config["revision"] = speculative.draft_model.revision
    if speculative.attention_backend is not None:
        config["attention_backend"] = speculative.attention_backend
    if speculative.rejection.method == "synthetic":
        config["rejection_sample_method"] = "synthetic"
        config["synthetic_acceptance_length"] = speculative.rejection.acceptance_length
    return json.dumps(config, sort_keys=True, separators=(",", ":"))


def _revision(spec: Spec) -> list[str]:
    return [] if spec.model.revision is None else ["--revision", spec.model.revision]


def _parallel(parallelism: Parallelism) -> list[str]:
    args = ["--tensor-parallel-size", str(parallelism.tensor)]
    if parallelism.pipeline > 1:
        args += ["--pipeline-parallel-size", str(parallelism.pipeline)]
    if parallelism.data > 1:
        args += ["--data-parallel-size", str(parallelism.data)]
    if parallelism.expert:
        args += ["--enable-expert-parallel"]
    return args


def _nodes(profile: Profile) -> list[str]:
    """From nnodes and node-rank the engine works out which data-parallel ranks are its own."""
    if not profile.spans_nodes:
        return []
    return [
        "--distributed-executor-backend",
        "mp",
        "--nnodes",
        str(profile.nodes_per_replica),
        "--node-rank",
        WORKER_INDEX,
        "--master-addr",
        LEADER_ADDRESS,
    ]


# --- Collisions -------------------------------------------------------------------------------------------------------

_BY_NAME: Final = "model.source"
_BY_SPECULATIVE: Final = "speculative"
_BY_PARALLELISM: Final = "parallelism"
_BY_NODES: Final = "accelerator.nodesPerReplica"
_BY_SERVER: Final = "the operator's Service and probes"

OWNED_FLAGS: Final[dict[str, str]] = {
    "--model": _BY_NAME,
    "--model-tag": _BY_NAME,
    "--revision": "model.revision",
    "--served-model-name": "model.servedName",
    "--speculative-config": _BY_SPECULATIVE,
    "--spec-method": _BY_SPECULATIVE,
    "--spec-model": _BY_SPECULATIVE,
    "--spec-tokens": _BY_SPECULATIVE,
    "--tensor-parallel-size": "parallelism.tensor",
    "--pipeline-parallel-size": "parallelism.pipeline",
    "--data-parallel-size": "parallelism.data",
    "--data-parallel-size-local": _BY_PARALLELISM,
    "--data-parallel-rank": _BY_PARALLELISM,
    "--data-parallel-start-rank": _BY_PARALLELISM,
    "--data-parallel-address": _BY_PARALLELISM,
    "--data-parallel-rpc-port": _BY_PARALLELISM,
    "--data-parallel-backend": _BY_PARALLELISM,
    "--data-parallel-hybrid-lb": _BY_PARALLELISM,
    "--data-parallel-external-lb": _BY_PARALLELISM,
    "--data-parallel-multi-port-external-lb": _BY_PARALLELISM,
    "--enable-expert-parallel": "parallelism.expert",
    "--disable-expert-parallel": "parallelism.expert",
    "--no-enable-expert-parallel": "parallelism.expert",
    "--distributed-executor-backend": _BY_NODES,
    "--nnodes": _BY_NODES,
    "--node-rank": _BY_NODES,
    "--master-addr": _BY_NODES,
    "--master-port": _BY_NODES,
    "--headless": _BY_NODES,
    "--shutdown-timeout": "drain.shutdownTimeoutSeconds",
    "--host": _BY_SERVER,
    "--port": _BY_SERVER,
    "--uds": _BY_SERVER,
    "--grpc": _BY_SERVER,
    "--api-key": _BY_SERVER,
    "--ssl-keyfile": _BY_SERVER,
    "--ssl-certfile": _BY_SERVER,
    "--config": "engine.args, each flag by itself",
    "--disable-log-stats": "the operator's metrics",
}
"""Long flag to the field that says it."""

OWNED_SHORT: Final[dict[str, str]] = {
    "-sc": "--speculative-config",
    "-tp": "--tensor-parallel-size",
    "-pp": "--pipeline-parallel-size",
    "-dp": "--data-parallel-size",
    "-dpl": "--data-parallel-size-local",
    "-dpn": "--data-parallel-rank",
    "-dpr": "--data-parallel-start-rank",
    "-dpa": "--data-parallel-address",
    "-dpp": "--data-parallel-rpc-port",
    "-dpb": "--data-parallel-backend",
    "-dph": "--data-parallel-hybrid-lb",
    "-dpe": "--data-parallel-external-lb",
    "-dpm": "--data-parallel-multi-port-external-lb",
    "-ep": "--enable-expert-parallel",
    "-n": "--nnodes",
    "-r": "--node-rank",
}


@dataclass(frozen=True)
class Collision:
    """A user's argument that says what a field of the spec says."""

    index: int
    """Position in `engine.args`."""
    flag: str
    """The flag's full name; never its value, which may be a secret."""
    owner: str
    """The field, or the part of the operator, that it belongs to."""


_REFERENCE: Final = re.compile(r"\$\$|\$\(([^()$]+)\)")


def expanded(args: Sequence[str], env: Sequence[EnvVar]) -> list[str]:
    """`args` as the engine gets them: Kubernetes puts a variable's value in place of $(NAME).

    What a Secret, a ConfigMap or the pod gives isn't known here and stays as it is written.
    """
    values: dict[str, str] = {}
    for variable in env:
        if variable.value is not None:
            values[variable.name] = _with_values(variable.value, values)
    return [_with_values(arg, values) for arg in args]


def _with_values(text: str, values: Mapping[str, str]) -> str:
    return _REFERENCE.sub(lambda found: "$" if found[0] == "$$" else values.get(found[1], found[0]), text)


def collisions(args: Sequence[str]) -> list[Collision]:
    """Every argument in `args` that sets an owned flag, in order."""
    found = ((index, owned_flag(arg)) for index, arg in enumerate(args))
    return [Collision(index, flag, OWNED_FLAGS[flag]) for index, flag in found if flag is not None]


def owned_flag(arg: str) -> str | None:
    """The owned flag that `arg` sets, in any spelling that the engine's parser takes; None for others."""
    if arg.startswith("--"):
        flag = re.split(r"[=.]", arg, maxsplit=1)[0].replace("_", "-")
        if flag in OWNED_FLAGS:
            return flag
        return next((owned for owned in OWNED_FLAGS if len(flag) > 2 and owned.startswith(flag)), None)
    short = re.fullmatch(r"(-[a-z]+)([=.].*|[0-9].*)?", arg, flags=re.DOTALL)
    return OWNED_SHORT.get(short.group(1)) if short else None
