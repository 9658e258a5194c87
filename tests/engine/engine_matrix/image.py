"""The image `engine-cpu-<line>` as a folder, and commands in it: chroot, in a mount namespace of their own."""

import contextlib
import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from specdecode_local import buildah, images, privilege

CONTAINER = "engine"


@dataclass(frozen=True)
class Image:
    """An unpacked image."""

    root: Path
    environment: Mapping[str, str]

    def command(self, words: Sequence[str], environment: Mapping[str, str] | None = None) -> list[str]:
        """How to run `words` inside.  /proc, /sys and /dev are the machine's; nothing stays mounted."""
        merged = {**self.environment, "HOME": "/tmp", **(environment or {})}
        mounts = "".join(f'mount --rbind /{name} "$0/{name}" && ' for name in ("proc", "sys", "dev"))
        settings = [f"{name}={value}" for name, value in merged.items()]
        return [
            "unshare",
            "--mount",
            "sh",
            "-c",
            f'{mounts}exec chroot "$0" "$@"',
            str(self.root),
            "env",
            "-i",
            *settings,
            *words,
        ]

    def run(self, *words: str) -> str:
        """The output of a command that has to succeed."""
        done = subprocess.run(self.command(words), capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)} in {self.root}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def patches(self) -> frozenset[str]:
        """The patches in its tree, from the files' hashes."""
        rows = json.loads(self.run("specdecode-engine", "list", "--json"))["rows"]
        return frozenset(row["name"] for row in rows if row["state"] == "active")

    def carried(self) -> list[str]:
        """The optimizations of its line that come with a patch, in the order of the series."""
        rows = json.loads(self.run("specdecode-engine", "list", "--json"))["rows"]
        return [row["name"] for row in rows if row["origin"] != "upstream"]

    def set_patches(self, wanted: frozenset[str]) -> None:
        """Make its tree the release's with just these."""
        inside = self.patches()
        for command, names in (("revert", inside - wanted), ("apply", wanted - inside)):
            if names:
                self.run("specdecode-engine", command, *sorted(names))


@contextlib.contextmanager
def unpacked(line: str) -> Iterator[Image]:
    """The line's image, built if its inputs changed, in a buildah storage of its own that is gone afterwards."""
    privilege.require_root("the engines run in a chroot")
    reference = images.build(f"engine-cpu-{line}")
    storage = buildah.Storage(f"engine-matrix-{line}")
    storage.drop()
    try:
        container = ("--name", CONTAINER, "--tls-verify=false", reference)
        storage.run("unpack", ["from", *container], lambda _: None)
        root = _said(storage, "mount", CONTAINER)
        yield Image(Path(root), environment(_said(storage, "inspect", CONTAINER)))
    finally:
        storage.drop()


def environment(inspected: str) -> dict[str, str]:
    """The variables that an image sets, from what `buildah inspect` prints of its container.

    The whole of it, because the templates of buildah 1.28 (Debian 12) cannot print a list as JSON.
    """
    pairs = json.loads(inspected)["OCIv1"]["config"].get("Env") or []
    return dict(pair.split("=", 1) for pair in pairs)


def _said(storage: buildah.Storage, *arguments: str) -> str:
    command = storage.command(*arguments)
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
