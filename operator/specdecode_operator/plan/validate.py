"""Rules that the schema can't hold: those that need a profile's defaults, the chart's allow-lists or other objects.

Each rule is here or in the CRD, never in both. All that is wrong is said at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from specdecode_operator.api.catalogue import CATALOGUE, Catalogue
from specdecode_operator.api.errors import FieldError
from specdecode_operator.api.profiles import Profile
from specdecode_operator.api.types import Spec
from specdecode_operator.build.args import collisions, expanded
from specdecode_operator.plan.canary.rules import validate_rollout


@dataclass(frozen=True)
class Allowed:
    """What the chart's values allow to objects, and whom they let ask."""

    host_paths: tuple[str, ...] = ()
    service_accounts: tuple[str, ...] = ()
    verified_requests: bool = False
    """Whether the API server has seen to it that a request names who wrote it."""


def field_errors(
    spec: Spec, profile: Profile, allowed: Allowed, catalogue: Catalogue = CATALOGUE
) -> tuple[FieldError, ...]:
    """All that is wrong with the spec itself, in the order of its fields."""
    return (
        *validate_optimizations(spec, catalogue),
        *validate_args(spec),
        *validate_parallelism(spec, profile),
        *validate_min_available(spec),
        *validate_volumes(spec, allowed),
        *validate_service_account(spec, allowed),
        *validate_rollout(spec),
    )


def validate_optimizations(spec: Spec, catalogue: Catalogue) -> Iterator[FieldError]:
    """Against the series of the engine's line: a switch that does nothing must not be accepted."""
    if spec.engine.build == "stock":
        return
    line = spec.engine.version
    series = catalogue.of_line(line)
    if series is None:
        yield FieldError(
            path="spec.engine.version",
            found=f"{line} with build patched, and no series for it in this operator's catalogue",
            allowed="a line with a series",
            action="take another line, set spec.engine.build to stock, or upgrade the operator",
        )
        return
    known = {each.name for each in series.optimizations}
    for place, name in enumerate(spec.engine.optimizations.disable):
        if name not in series.switchable:
            yield FieldError(
                path=f"spec.engine.optimizations.disable[{place}]",
                found=name,
                allowed=f"what engine {line} can switch off ({', '.join(series.switchable) or 'nothing'})",
                action="remove it: this release has it built in" if name in known else "correct or remove it",
            )


def validate_args(spec: Spec) -> Iterator[FieldError]:
    """Arguments that say what a field says: two places for one setting, and the last would win."""
    for collision in collisions(expanded(spec.engine.args, spec.engine.env)):
        yield FieldError(
            path=f"spec.engine.args[{collision.index}]",
            found=collision.flag,
            allowed="flags that no field of the spec and no part of the operator sets",
            action=f"remove it; it belongs to {collision.owner}",
        )


def validate_parallelism(spec: Spec, profile: Profile) -> Iterator[FieldError]:
    """tensor x pipeline x data against the GPUs of a replica."""
    sizes = spec.parallelism
    product = f"tensor x pipeline x data = {sizes.tensor} x {sizes.pipeline} x {sizes.data} = {sizes.world_size}"
    has = (
        f"profile {profile.name} gives a replica {profile.gpus_per_replica} GPUs "
        f"({profile.gpus_per_node} a node, {profile.nodes_per_replica} node{'s' * (profile.nodes_per_replica > 1)})"
    )
    if profile.gpus_per_node and sizes.world_size > profile.gpus_per_replica:
        yield FieldError(
            path="spec.parallelism",
            found=product,
            allowed=f"at most {profile.gpus_per_replica}: {has}",
            action="lower one of the three, or raise spec.accelerator.gpusPerNode or nodesPerReplica",
        )
    elif profile.spans_nodes and sizes.world_size % profile.nodes_per_replica:
        yield FieldError(
            path="spec.parallelism",
            found=product,
            allowed=f"a multiple of the {profile.nodes_per_replica} nodes that a replica spans",
            action="change one of the three, or spec.accelerator.nodesPerReplica",
        )


def validate_min_available(spec: Spec) -> Iterator[FieldError]:
    """Against replicas, which an autoscaler may set: a rule of the schema would refuse its write instead.

    With none, nothing is to be available: an object that is scaled to zero keeps its floor for later.
    """
    if spec.min_available is not None and 0 < spec.replicas < spec.min_available:
        yield FieldError(
            path="spec.minAvailable",
            found=f"{spec.min_available} with {spec.replicas} replicas",
            allowed=f"at most spec.replicas ({spec.replicas}), one less if revisions are to be replaced",
            action="lower it, remove it (the default is replicas - 1), or raise spec.replicas",
        )


def validate_volumes(spec: Spec, allowed: Allowed) -> Iterator[FieldError]:
    """Paths of the node, which only the chart can allow."""
    for place, volume in enumerate(spec.template.volumes):
        if volume.host_path is not None and not _within(volume.host_path.path, allowed.host_paths):
            yield FieldError(
                path=f"spec.template.volumes[{place}].hostPath.path",
                found=volume.host_path.path,
                allowed=f"a path in the chart's allowedHostPaths ({', '.join(allowed.host_paths) or 'none'})",
                action="use another kind of volume, or have the chart's value extended by whoever runs the operator",
            )


def validate_service_account(spec: Spec, allowed: Allowed) -> Iterator[FieldError]:
    """Service accounts, which only the chart can allow."""
    account = spec.template.service_account_name
    listed = ", ".join(allowed.service_accounts) or "none"
    if account not in (None, "default", *allowed.service_accounts):
        yield FieldError(
            path="spec.template.serviceAccountName",
            found=str(account),
            allowed=f"default, or one in the chart's allowedServiceAccounts ({listed})",
            action="remove it, or have the chart's value extended by whoever runs the operator",
        )


def hostname_taken(hostname: str, by: str) -> FieldError:
    """Another object's route has the hostname with the same gateway and path."""
    name = "all hostnames" if hostname == "*" else hostname
    return FieldError(
        path="spec.traffic.hostnames",
        found=f"{name}, which SpecDecodeDeployment {by} has claimed on the same gateway and path",
        allowed="a hostname, or a path, that no other object has claimed there",
        action="choose another hostname or spec.traffic.path, or remove it from the other object first",
    )


def _within(path: str, roots: tuple[str, ...]) -> bool:
    wanted = PurePosixPath(path)
    return ".." not in wanted.parts and any(wanted.is_relative_to(root) for root in roots)
