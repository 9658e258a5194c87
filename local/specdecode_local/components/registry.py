"""The image registry on loopback: Debian's docker-registry with a configuration of ours, blobs in the cache."""

from __future__ import annotations

import yaml

from specdecode_local import addresses, paths, probe
from specdecode_local.process import Component

CONFIGURATION = paths.CONFIGURATION / "registry.yaml"


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
    return Component(
        name="registry",
        argv=("/usr/bin/docker-registry", "serve", str(CONFIGURATION)),
        configuration={CONFIGURATION: yaml.safe_dump(configuration(), sort_keys=True)},
        ready=lambda: probe.http(f"http://{addresses.REGISTRY}/v2/"),
    )
