"""Runs buildah: each image in a storage folder of its own under the cache.

A storage of its own means that dropping what a build unpacked is removing one folder, that two images can be built at
once, and that nothing of the user's own containers is touched. RUN steps see the machine's certificates and proxies
while they run; neither is written to the image.
"""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from specdecode_local import mounts, paths
from specdecode_local.errors import LocalError

ATTEMPTS = 3
RETRY_SECONDS = 10.0

ATTEMPT_SECONDS = 3600.0
"""A build that takes longer than this is taken to hang; the largest image takes minutes."""

NETWORK_FAILURES = (
    "timeout",
    "timed out",
    "Connection reset",
    "connection reset",
    "connection refused",
    "Connection refused",
    "Could not connect",
    "Failed to fetch",
    "Temporary failure",
    "no such host",
    "unexpected EOF",
    "IncompleteRead",
    "ConnectionResetError",
    "RemoteDisconnected",
    "429 Too Many",
    "500 Internal",
    "502 Bad",
    "503 Service",
    "504 Gateway",
)
"""What a registry in trouble looks like in a build's output; only these are tried again."""

STORAGE_FAILURES = ("layer not known", "image not known", "container not known", "identifier is not ")
"""What buildah says when its storage contradicts itself; a build's own steps never see the storage."""

CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"

HANDED_ON = (
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_TRUSTED_HOST",
    "PIP_DEFAULT_TIMEOUT",
    "UV_INDEX_URL",
    "UV_DEFAULT_INDEX",
    "UV_HTTP_TIMEOUT",
)
"""Settings of the package clients that a Containerfile gets when it declares them by ARG, in a stage that the last one
is not built on, so that the image does not keep them. pip's also come as the secret pip.conf."""


PIP_SETTINGS = ("index-url", "extra-index-url", "trusted-host", "timeout")
"""What pip on this machine is told about its registry, by file or by environment."""


def pip_configuration(machine: Mapping[str, str], files: Sequence[Path]) -> str:
    """A pip.conf with this machine's registry settings: the environment's, else the last file's that has one."""
    found: dict[str, str] = {}
    for file in files:
        parser = configparser.RawConfigParser()
        parser.read(file)
        if parser.has_section("global"):
            found |= {name: value for name, value in parser.items("global") if name in PIP_SETTINGS}
    variables = {name: f"PIP_{name.upper().replace('-', '_')}" for name in PIP_SETTINGS} | {
        "timeout": "PIP_DEFAULT_TIMEOUT"
    }
    found |= {name: machine[variable] for name, variable in variables.items() if machine.get(variable)}
    return "".join(["[global]\n", *(f"{name} = {value}\n" for name, value in sorted(found.items()))])


def pip_files(machine: Mapping[str, str]) -> list[Path]:
    """Where pip looks for its settings, the strongest last."""
    own = machine.get("PIP_CONFIG_FILE")
    home = Path(machine.get("HOME", "/root"))
    usual = [Path("/etc/pip.conf"), home / ".pip" / "pip.conf", home / ".config" / "pip" / "pip.conf"]
    return [*usual, *([Path(own)] if own else [])]


class StorageBrokenError(LocalError):
    """What earlier builds left contradicts itself, as after a power cut; dropped, everything can be built again."""


class Storage:
    """The unpacked layers of one image, and the commands on them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.root = paths.cache() / "containers" / name
        self.run_root = Path("/run/specdecode-images") / name
        self.temporary = self.root / "tmp"
        """buildah's own is /var/tmp, where a killed build leaves layers of gigabytes for good."""
        self.begun = self.root / "begun"
        """There while a command runs: one that was killed may have left half a layer."""
        self.log = paths.cache() / "images" / f"{name}.log"

    def command(self, *arguments: str) -> list[str]:
        """A buildah command line on this storage."""
        return [
            *("nice", "-n", "10", "buildah", "--root", str(self.root), "--runroot", str(self.run_root)),
            *("--storage-driver", self.driver(), *arguments),
        ]

    def driver(self) -> str:
        """overlay, or vfs where the cache's own file system cannot carry an overlay (inside some containers)."""
        used = [kind for kind in ("overlay", "vfs") if (self.root / f"{kind}-images").is_dir()]
        if used:
            return used[0]
        probe = ["buildah", "--root", str(self.root), "--runroot", str(self.run_root), "--storage-driver", "overlay"]
        return "overlay" if subprocess.run([*probe, "images"], capture_output=True).returncode == 0 else "vfs"

    def start_from(self, base: str) -> None:
        """Drops what was built on another base, of which no layer can be used again, and what a killed build left."""
        note = self.root / "base"
        if self.begun.exists() or not note.is_file() or note.read_text() != base:
            self.drop()
        self.root.mkdir(parents=True, exist_ok=True)
        note.write_text(base)

    def build(
        self,
        containerfile: Path,
        context: Path,
        *,
        tag: str,
        arguments: Mapping[str, str],
        secrets: Mapping[str, Path],
        layers: bool,
        on_step: Callable[[str], None],
    ) -> None:
        """Builds the image and tags it. Raises LocalError.

        `layers` keeps the result of each step for the next build; without it no step's result is written down.
        """
        options = ["--isolation", "chroot", "--timestamp", "0", "--tls-verify=false", "--format", "oci"]
        options += [f"--layers={str(layers).lower()}"]
        for name, value in sorted(arguments.items()):
            options += ["--build-arg", f"{name}={value}"]
        for name, file in sorted(secrets.items()):
            options += ["--secret", f"id={name},src={file}"]
        certificates = os.environ.get("SSL_CERT_FILE") or CERTIFICATES
        if Path(certificates).is_file():
            options += ["--volume", f"{certificates}:{CERTIFICATES}:ro"]
        self.run("build", ["bud", *options, "--file", str(containerfile), "--tag", tag, str(context)], on_step)

    def push(self, tag: str, destination: str, on_step: Callable[[str], None]) -> str:
        """Pushes the image; its digest in the registry. Raises LocalError."""
        digest = self.root / "digest"
        # zstd: containerd unpacks it several times as fast as gzip.
        options = ["--tls-verify=false", "--compression-format", "zstd", "--compression-level", "1"]
        options += ["--digestfile", str(digest)]
        self.run("push", ["push", *options, tag, f"docker://{destination}"], on_step)
        return digest.read_text().strip()

    def drop(self) -> None:
        """Removes everything unpacked. Mounts that a killed build left behind go first.

        Under another name, so that a build that comes after a drop was killed doesn't find half a storage.
        """
        for folder in (self.root, self.run_root):
            mounts.unmount(mounts.at_or_below(folder))
            dropped = folder.with_name(f".{folder.name}.dropped")
            for present in (dropped, folder):
                if present.exists():
                    shutil.rmtree(present.replace(dropped), ignore_errors=True)

    def run(self, what: str, arguments: list[str], on_step: Callable[[str], None]) -> None:
        """Runs buildah, its output in the image's log; a registry's trouble is met with a few tries."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.temporary.mkdir(parents=True, exist_ok=True)
        output = ""
        for attempt in range(ATTEMPTS):
            if attempt:
                on_step(f"a registry did not answer, try {attempt + 1} of {ATTEMPTS}")
                time.sleep(RETRY_SECONDS * attempt)
            code, output = self._attempt(arguments, on_step)
            if code == 0:
                return
            if not is_network_failure(output):
                break
        raise self._failure(what, output)

    def _attempt(self, arguments: list[str], on_step: Callable[[str], None]) -> tuple[int, str]:
        lines: deque[str] = deque(maxlen=200)
        self.begun.touch()
        with (
            self.log.open("w") as log,
            subprocess.Popen(
                self.command(*arguments),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env={**os.environ, "TMPDIR": str(self.temporary)},
            ) as process,
        ):
            watch = threading.Timer(ATTEMPT_SECONDS, process.terminate)
            watch.start()
            assert process.stdout is not None
            for line in process.stdout:
                log.write(line)
                log.flush()
                lines.append(line)
                if "STEP " in line[:12]:
                    on_step(line.strip()[:80])
            if watch.finished.is_set():
                lines.append(f"timed out after {ATTEMPT_SECONDS:.0f} s\n")
            watch.cancel()
        if process.returncode >= 0:
            self.begun.unlink(missing_ok=True)
        return process.returncode, "".join(lines)

    def _failure(self, what: str, output: str) -> LocalError:
        tail = "\n".join(output.strip().splitlines()[-12:])
        if is_network_failure(output):
            return LocalError(
                f"image {self.name}: {what} failed, a registry did not answer {ATTEMPTS} times in a row",
                detail=tail,
                remedy=f"check the network, then run the same command again; the whole output is in {self.log}",
            )
        kind = StorageBrokenError if is_storage_failure(output, self.root) else LocalError
        return kind(f"image {self.name}: {what} failed", detail=tail, remedy=f"the whole output is in {self.log}")


def drop_all() -> None:
    """Removes every image's unpacked layers, also those whose build was killed with its mounts in place."""
    parent = paths.cache() / "containers"
    for folder in parent.iterdir() if parent.is_dir() else ():
        Storage(folder.name).drop()


def is_storage_failure(output: str, root: Path) -> bool:
    """Whether buildah failed over its own storage rather than over a step."""
    errors = [line for line in output.splitlines() if line.startswith("Error: ")]
    return any(sign in line for line in errors for sign in (*STORAGE_FAILURES, f"{root}/"))


def is_network_failure(output: str) -> bool:
    """Whether a build failed because of a registry rather than of the Containerfile."""
    return any(sign in output for sign in NETWORK_FAILURES)
