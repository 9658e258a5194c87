"""The image registry on loopback: Debian's docker-registry with a configuration of ours, blobs in the cache."""

from __future__ import annotations

import yaml

from specdecode_local import addresses, apt, cgroups, paths, ports, probe, process
from specdecode_local.process import Component

NAME = "registry"


def configuration() -> dict[str, object]:
    """No passwords and no other address: the registry is for this machine's own pods."""
    return {
        "version": 0.1,
        "log": {"level": "warn", "accesslog": {"disabled": True}},
        "storage": {
            "filesystem": {"rootdirectory": str(paths.registry_data())},
            "delete": {"enabled": True},
            "maintenance": {"uploadpurging": {"enabled": False}},
        },
        "http": {"addr": addresses.REGISTRY},
    }


def component() -> Component:
    file = paths.CONFIGURATION / "registry.yaml"
    return Component(
        name=NAME,
        argv=("/usr/bin/docker-registry", "serve", str(file)),
        files=(file,),
        ready=lambda: probe.http(f"http://{addresses.REGISTRY}/v2/"),
    )


def up() -> process.Outcome:
    """Starts the registry unless it runs."""
    apt.require("docker-registry")
    paths.CONFIGURATION.mkdir(parents=True, exist_ok=True)
    paths.registry_data().mkdir(parents=True, exist_ok=True)
    (paths.CONFIGURATION / "registry.yaml").write_text(yaml.safe_dump(configuration(), sort_keys=True))
    if process.alive_pid(NAME) is None:
        ports.require_free([(addresses.LOOPBACK, addresses.REGISTRY_PORT, "image registry")], set())
    cgroups.make()
    outcome = process.ensure(component())
    process.await_ready(component())
    return outcome


def down() -> None:
    process.stop(NAME)
