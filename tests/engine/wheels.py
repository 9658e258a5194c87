"""The releases' own wheels, by the hash in the manifest: found in the cache, fetched from the package index if not."""

import fcntl
import functools
import subprocess
import sys
import zipfile
from pathlib import Path

from specdecode_engine import manifests, tree
from specdecode_engine.manifests import Manifest
from specdecode_local import paths

LINES = ("0.30.0", "0.33.0")
PLATFORM = ("--only-binary=:all:", "--platform", "manylinux_2_28_x86_64", "--python-version", "3.12")


@functools.cache
def wheel(release: str) -> Path:
    """The wheel of `release` that its manifest was sealed from."""
    expected = manifests.load(release).wheels["x86_64"]
    found = _fetched(release, paths.cache() / "wheels")
    assert tree.sha256(found.read_bytes()) == expected, f"{found} is not the wheel the manifest was sealed from"
    return found


def _fetched(release: str, folder: Path) -> Path:
    """The release's wheel in `folder`; of several processes that want it at once one fetches it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f".{release}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not any(folder.glob(f"vllm-{release}-*.whl")):
            asked = ["download", "--no-deps", "--quiet", "--dest", str(folder), *PLATFORM, f"vllm=={release}"]
            subprocess.run([sys.executable, "-m", "pip", *asked], check=True)
    return next(folder.glob(f"vllm-{release}-*.whl"))


@functools.cache
def source(release: str, path: str) -> str:
    """One file of the release, unpatched."""
    with zipfile.ZipFile(wheel(release)) as archive:
        return archive.read(path).decode()


def install(release: str, root: Path) -> Manifest:
    """The release's files that the manifest knows, as installed under `root`."""
    manifest = manifests.load(release)
    (root / f"vllm-{release}.dist-info").mkdir(parents=True)
    with zipfile.ZipFile(wheel(release)) as archive:
        archive.extractall(root, manifest.hashes)
    return manifest
