"""The image `engine-cpu-<line>` as a folder, and commands in it: chroot, in a mount namespace of their own."""

import json
import shutil
import subprocess
import tarfile
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from specdecode_local import images, paths, privilege

_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


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


def unpacked(line: str) -> Image:
    """The line's image, built if its inputs changed, in a folder of the cache that is known by the image's digest."""
    privilege.require_root("the engines run in a chroot")
    name = f"engine-cpu-{line}"
    path, _, digest = images.build(name).removeprefix(f"{images.REGISTRY}/").partition("@")
    manifest = _json(path, "manifests", digest)
    configuration = _json(path, "blobs", manifest["config"]["digest"])["config"]
    root = paths.cache() / "engines" / f"{line}-{digest.removeprefix('sha256:')[:12]}"
    if not root.is_dir():
        for old in root.parent.glob(f"{line}-*"):
            shutil.rmtree(old)
        fresh = root.with_suffix(".unpacking")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        for layer in manifest["layers"]:
            _unpack(path, layer["digest"], fresh)
        fresh.rename(root)
    return Image(root, dict(pair.split("=", 1) for pair in configuration["Env"]))


def _json(path: str, kind: str, digest: str) -> dict:
    with _open(path, kind, digest) as answer:
        return dict(json.load(answer))


def _open(path: str, kind: str, digest: str):
    request = urllib.request.Request(
        f"http://{images.REGISTRY}/v2/{path}/{kind}/{digest}", headers={"Accept": images.MANIFEST_TYPES}
    )
    return _OPENER.open(request, timeout=60)


def _unpack(path: str, digest: str, root: Path) -> None:
    """One layer over those below it; a whiteout deletes what it names.

    Raises RuntimeError for a member that a link of the image would lead out of the folder.
    """
    with _open(path, "blobs", digest) as blob, tarfile.open(fileobj=blob, mode="r|*") as layer:
        for member in layer:
            target = root / member.name
            if not target.parent.resolve().is_relative_to(root.resolve()):
                raise RuntimeError(f"{path}: {member.name} of layer {digest} lies outside the image")
            if target.name.startswith(".wh."):
                _remove(target.with_name(target.name.removeprefix(".wh.")))
                continue
            if not member.isdir():
                _remove(target)
            layer.extract(member, root, filter="fully_trusted")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
