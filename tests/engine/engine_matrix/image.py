"""An engine's image as a folder, and commands in it: chroot, in a mount namespace of their own."""

import contextlib
import json
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specdecode_local import buildah, images, privilege

CONTAINER = "engine"
ROOT = "0:0"


@dataclass(frozen=True)
class Image:
    """An unpacked image."""

    root: Path
    environment: Mapping[str, str]
    entrypoint: tuple[str, ...] = ()
    user: str = ROOT
    """Whom the entry point runs as, as the image says it."""
    reference: str = ""
    """By digest."""

    def command(
        self,
        words: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        user: str = ROOT,
        folders: Mapping[str, Path] | None = None,
    ) -> list[str]:
        """How to run `words` inside.  /proc, /sys and /dev are the machine's; nothing stays mounted.

        `folders` are the machine's too: where they are inside -> what is mounted there.
        """
        merged = {**self.environment, "HOME": "/tmp", **(environment or {})}
        steps = [f'mount --rbind /{name} "$0/{name}"' for name in ("proc", "sys", "dev")]
        for inside, folder in (folders or {}).items():
            steps.append(f'mkdir -p "$0{inside}" && mount --bind {shlex.quote(str(folder))} "$0{inside}"')
        settings = [f"{name}={value}" for name, value in merged.items()]
        return [
            "unshare",
            "--mount",
            "sh",
            "-c",
            " && ".join([*steps, f'exec chroot --userspec={user} "$0" "$@"']),
            str(self.root),
            "env",
            "-i",
            *settings,
            *words,
        ]

    def start(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """What becomes of the image's own command with these arguments, run to its end as the image's own user."""
        command = self.command([*self.entrypoint, *arguments], user=self.user)
        return subprocess.run(command, capture_output=True, text=True)

    def run(self, *words: str, user: str = ROOT) -> str:
        """The output of a command that has to succeed."""
        done = subprocess.run(self.command(words, user=user), capture_output=True, text=True)
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
def unpacked(name: str) -> Iterator[Image]:
    """The image, built if its inputs changed, in a buildah storage of its own that is gone afterwards."""
    privilege.require_root("the engines run in a chroot")
    reference = images.build(name)
    storage = buildah.Storage(f"unpacked-{name}")
    storage.drop()
    try:
        container = ("--name", CONTAINER, "--tls-verify=false", reference)
        storage.run("unpack", ["from", *container], lambda _: None)
        root = _said(storage, "mount", CONTAINER)
        inspected = _said(storage, "inspect", CONTAINER)
        own = configuration(inspected)
        command = tuple(own.get("Entrypoint") or ())
        yield Image(Path(root), environment(inspected), command, own.get("User") or ROOT, reference)
    finally:
        storage.drop()


def configuration(inspected: str) -> dict[str, Any]:
    """What an image says of its own command, from what `buildah inspect` prints of its container.

    The whole of it, because the templates of buildah 1.28 (Debian 12) cannot print a list as JSON.
    """
    return dict(json.loads(inspected)["OCIv1"]["config"])


def environment(inspected: str) -> dict[str, str]:
    """The variables that an image sets."""
    return dict(pair.split("=", 1) for pair in configuration(inspected).get("Env") or [])


def _said(storage: buildah.Storage, *arguments: str) -> str:
    command = storage.command(*arguments)
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
