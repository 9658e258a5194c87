"""Where the running cluster is reached from this machine, as `up` and `status` tell it."""

from __future__ import annotations

from specdecode_local import addresses, paths


def told() -> str:
    """A line for each of what a person opens, and how kubectl and curl get there."""
    return "\n".join(
        (
            f"  kubectl     export KUBECONFIG={paths.KUBECONFIG} PATH={paths.binaries()}:$PATH",
            f"  API server  https://{addresses.NODE}:{addresses.API_PORT}",
            f"  gateway     http://{addresses.LOOPBACK}:{addresses.GATEWAY_PORT}",
            f"  Prometheus  http://{addresses.LOOPBACK}:{addresses.PROMETHEUS_PORT}",
            f"  registry    {addresses.REGISTRY}",
            f"  logs        {paths.LOGS}",
        )
    )
