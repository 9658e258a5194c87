"""The image registry alone, for building images before there is a cluster."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from specdecode_local import addresses, apt, cgroups, paths, ports, process
from specdecode_local.components import registry
from specdecode_local.errors import LocalError

REPOSITORIES = Path("docker/registry/v2/repositories")
"""Where the registry keeps, below its data, a folder of links for each repository."""


def up() -> process.Outcome:
    """Starts the registry unless it runs."""
    apt.require("docker-registry")
    paths.registry_data().mkdir(parents=True, exist_ok=True)
    component = registry.component()
    if process.alive_pid(component.name) is None:
        ports.require_free([(addresses.LOOPBACK, addresses.REGISTRY_PORT, "image registry")], cgroups.processes())
    cgroups.make()
    return process.await_ready(component, process.ensure(component))


def down() -> None:
    component = registry.component()
    process.stop(component.name, component.stop_seconds)


def superseded(repositories: Path, kept: Mapping[str, str]) -> Iterator[Path]:
    """What names an image that nobody wants any more: a repository, a tag, a manifest.

    `kept` is the one digest that is wanted of each repository in the folder.
    """
    for repository in sorted(repositories.iterdir()) if repositories.is_dir() else ():
        if repository.name not in kept:
            yield repository
            continue
        digest = kept[repository.name]
        for tag in sorted(repository.glob("_manifests/tags/*")):
            if (tag / "current" / "link").read_text() != digest:
                yield tag
        for manifest in sorted(repository.glob("_manifests/revisions/*/*")):
            if f"{manifest.parent.name}:{manifest.name}" != digest:
                yield manifest


def collect(named: Iterable[Path], configuration: Path) -> None:
    """Removes the names, then the layers that only those led to. The registry must not run. Raises LocalError."""
    for folder in named:
        shutil.rmtree(folder)
    command = ["/usr/bin/docker-registry", "garbage-collect", str(configuration)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise LocalError("the image registry: garbage-collect failed", detail=done.stderr[-1500:])


def collect_from_ours(named: Iterable[Path]) -> None:
    """The same for the registry of this machine, which is stopped meanwhile."""
    down()
    try:
        collect(named, registry.CONFIGURATION)
    finally:
        up()
