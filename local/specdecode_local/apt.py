"""Debian packages that the cluster runs on; only missing ones are installed, and their services never start."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from specdecode_local.errors import LocalError

PACKAGES = (
    "containerd",
    "runc",
    "containernetworking-plugins",
    "buildah",
    "mmdebstrap",
    "docker-registry",
    "haproxy",
    "iproute2",
    "iptables",
    "nftables",
)

SERVICES = {
    "containerd": "containerd.service",
    "docker-registry": "docker-registry.service",
    "haproxy": "haproxy.service",
}
"""Services that a package would start at boot; we run the same programs with files of our own."""

POLICY = Path("/usr/sbin/policy-rc.d")
ATTEMPTS = 3


def parse_installed(output: str) -> set[str]:
    """Names of installed packages in dpkg-query's `Package Status` lines."""
    found = set()
    for line in output.splitlines():
        name, _, status = line.partition(" ")
        if status.strip() == "install ok installed":
            found.add(name)
    return found


def missing(packages: tuple[str, ...]) -> list[str]:
    result = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package} ${Status}\\n", *packages], capture_output=True, text=True, check=False
    )
    installed = parse_installed(result.stdout)
    return [package for package in packages if package not in installed]


def require(*packages: str) -> None:
    """Installs what is missing. Raises LocalError with apt's own words when that fails."""
    wanted = missing(packages or PACKAGES)
    if not wanted:
        return
    if shutil.which("apt-get") is None:
        raise LocalError(
            f"missing packages: {', '.join(wanted)}, and there is no apt-get",
            remedy="this program is made for Debian 12; use a cluster of your own instead (README, first steps)",
        )
    with _services_held_back():
        _install(wanted)
    _keep_services_off(wanted)


def _install(packages: list[str]) -> None:
    # The first try spares the index; it works on any machine whose index is not stale.
    options = ["-o", "Acquire::Retries=3", "-o", "DPkg::Lock::Timeout=300"]
    install = ["apt-get", "install", "-y", "--no-install-recommends", *options, *packages]
    result = _apt(install)
    for _ in range(ATTEMPTS - 1):
        if result.returncode == 0:
            return
        _apt(["apt-get", "update", *options])
        result = _apt(install)
    if result.returncode:
        raise LocalError(
            f"apt-get could not install {', '.join(packages)}",
            detail=result.stderr[-1500:],
            remedy="check the package mirror (`apt-get update`), then run the same command again",
        )


def _apt(command: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    inherited = ["env", *(f"{name}={value}" for name, value in environment.items())]
    return subprocess.run([*inherited, *command], capture_output=True, text=True, check=False)


@contextmanager
def _services_held_back() -> Iterator[None]:
    """Debian starts services on install unless this file says no; one that is there already is left alone."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink()


def _keep_services_off(installed_now: list[str]) -> None:
    """Only for packages that we brought: a service that the machine's owner runs stays theirs."""
    if not Path("/run/systemd/system").is_dir():
        return
    for package in installed_now:
        if package in SERVICES:
            with contextlib.suppress(OSError):
                subprocess.run(["systemctl", "disable", "--now", SERVICES[package]], capture_output=True, check=False)
