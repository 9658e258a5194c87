"""The image registry alone, for building images before there is a cluster."""

from __future__ import annotations

from specdecode_local import addresses, apt, cgroups, paths, ports, process
from specdecode_local.components import registry


def up() -> process.Outcome:
    """Starts the registry unless it runs."""
    apt.require("docker-registry")
    paths.registry_data().mkdir(parents=True, exist_ok=True)
    component = registry.component()
    if process.alive_pid(component.name) is None:
        ports.require_free([(addresses.LOOPBACK, addresses.REGISTRY_PORT, "image registry")], set())
    cgroups.make()
    outcome = process.ensure(component)
    process.await_ready(component)
    return outcome


def down() -> None:
    component = registry.component()
    process.stop(component.name, component.stop_seconds)
