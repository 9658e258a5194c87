"""Builds the images of the local cluster without a container engine, and only those whose inputs changed.

Every image has `images/<folder>/Containerfile`, built with the top of the repository as its context. What no commit
holds (a root file system, a Go program) is laid under `made/` in that context first. The base image is the build
argument BASE. Elsewhere the same files build with docker or buildah:

    docker build -f images/operator/Containerfile --build-arg BASE=debian:bookworm-slim .

An image is known by the hash of its inputs and pulled by the digest of its content; `<cache>/images/<name>.json` keeps
the pair.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from specdecode_local import apt, buildah, gotoolchain, image_inputs, paths, privilege, registry
from specdecode_local.errors import LocalError
from specdecode_local.progress import Progress

REGISTRY = "127.0.0.1:5000"
PREFIX = "specdecode"

MANIFEST_TYPES = "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"

DEBIAN = "bookworm"
DEBIAN_OPTIONS = (
    "--variant=minbase",
    '--aptopt=APT::Install-Recommends "false"',
    '--aptopt=Acquire::Retries "5"',
    "--dpkgopt=path-exclude=/usr/share/man/*",
    "--dpkgopt=path-exclude=/usr/share/info/*",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-include=/usr/share/doc/*/copyright",
)


@dataclass(frozen=True)
class Made:
    """Something that is built outside a container and then copied in from `made/`."""

    key: Callable[[], str]
    """Stands for its content in the image's hash, without building it."""
    make: Callable[[Path], None]
    """Writes it to the given path."""


@dataclass(frozen=True)
class Recipe:
    """How one image is built."""

    name: str
    folder: str
    """Folder in `images/` with the Containerfile."""
    base: str | None = "base"
    """The image handed over as BASE; None for one that starts from nothing."""
    arguments: Mapping[str, str] = field(default_factory=dict)
    made: Mapping[str, Made] = field(default_factory=dict)
    keeps_layers: bool = False
    """Whether unpacked layers stay after the push, so that a change of its last layers is built in seconds."""

    @property
    def containerfile(self) -> Path:
        return paths.REPOSITORY / "images" / self.folder / "Containerfile"


# --- What is made outside a container ---------------------------------------------------------------------------------


def packages() -> list[str]:
    """Debian packages of the base image: one a line, `#` starts a comment."""
    text = (paths.REPOSITORY / "images" / "base" / "packages.txt").read_text()
    return sorted({line.split("#")[0].strip() for line in text.splitlines()} - {""})


def _root_file_system_key() -> str:
    return _digest(json.dumps([DEBIAN, DEBIAN_OPTIONS, packages()]))


def _make_root_file_system(target: Path) -> None:
    apt.require("mmdebstrap")
    command = ["nice", "-n", "10", "mmdebstrap", *DEBIAN_OPTIONS, f"--include={','.join(packages())}", "--format=tar"]
    # The newest file date that a package may bring: without it every build has another date on what it generates.
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "0"}
    result = subprocess.run([*command, DEBIAN, str(target)], capture_output=True, text=True, env=environment)
    if result.returncode:
        raise LocalError(
            "image base: mmdebstrap failed",
            detail="\n".join(result.stderr.splitlines()[-12:]),
            remedy="check that Debian's package mirror answers and the names in images/base/packages.txt",
        )


def _pause_key() -> str:
    return _digest((paths.REPOSITORY / "images" / "pause" / "pause.go").read_text())


def _make_pause(target: Path) -> None:
    source = paths.REPOSITORY / "images" / "pause" / "pause.go"
    command = ["nice", "-n", "10", str(gotoolchain.find()), "build", "-trimpath", "-ldflags", "-s -w -buildid="]
    environment = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": ""}
    result = subprocess.run(
        [*command, "-o", str(target), str(source)], capture_output=True, text=True, env=environment, cwd="/"
    )
    if result.returncode:
        raise LocalError("image pause: go build failed", detail=result.stderr[-1500:], remedy=f"see {source}")


def _program(name: str) -> Made:
    """One of the Go programs that `specdecode_local.gobuild` leaves in the cache."""

    def built() -> Path:
        file = paths.binary(name)
        if not file.is_file():
            raise LocalError(
                f"image {name}: {file} is missing", remedy="run `python -m specdecode_local build` (make up does) first"
            )
        return file.resolve()

    # A build's folder is named by its content (gobuild), so its path stands for it.
    return Made(key=lambda: str(Path(built().parent.name) / built().name), make=lambda to: _copy(built(), to))


def _copy(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)
    target.chmod(0o755)


LINES = ("0.33.0", "0.30.0")
"""Release lines of the engine."""


def _engines(line: str) -> tuple[Recipe, ...]:
    """The images of one line: first what a release brings, then, in seconds, what changes with our own code."""
    version = {"VLLM_VERSION": line}
    return (
        Recipe(f"engine-cpu-base-{line}", "engine-cpu-base", arguments=version),
        Recipe(f"engine-cpu-{line}", "engine-cpu", base=f"engine-cpu-base-{line}", arguments=version),
        Recipe(f"engine-files-{line}", "engine-files", arguments=version),
        Recipe(f"engine-{line}", "engine", base=f"engine-files-{line}", arguments=version),
    )


RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe("base", "base", base=None, made={"rootfs.tar": Made(_root_file_system_key, _make_root_file_system)}),
        Recipe("pause", "pause", base=None, made={"pause": Made(_pause_key, _make_pause)}),
        Recipe("envoy", "envoy"),
        Recipe("envoy-gateway", "envoy-gateway", made={"envoy-gateway": _program("envoy-gateway")}),
        Recipe("operator", "operator", keeps_layers=True),
        Recipe("engine-standin", "engine-standin", keeps_layers=True),
        *(engine for line in LINES for engine in _engines(line)),
    )
}
"""Every image, each after its base."""


# --- Building ---------------------------------------------------------------------------------------------------------


def recipe_of(name: str) -> Recipe:
    """Raises LocalError for a name that no image has."""
    if name not in RECIPES:
        raise LocalError(f"no image is called {name!r}", remedy=f"take one of: {', '.join(RECIPES)}")
    return RECIPES[name]


def current_hash(name: str) -> str:
    """The hash of everything the image is made of, as the files lie now."""
    recipe = recipe_of(name)
    text = recipe.containerfile.read_text()
    taken = image_inputs.sources(text, recipe.arguments)
    unknown = sorted(set(taken.made) - set(recipe.made))
    if unknown:
        raise LocalError(
            f"image {name}: the Containerfile takes made/{unknown[0]}, which nothing makes",
            remedy=f"correct it, or add it to the recipe of {name} in specdecode_local/images.py",
        )
    return image_inputs.input_hash(
        text,
        arguments=recipe.arguments,
        files=image_inputs.files_of(taken, paths.REPOSITORY),
        root=paths.REPOSITORY,
        made={item: recipe.made[item].key() for item in taken.made},
        base=current_hash(recipe.base) if recipe.base else "",
    )


def ref(name: str) -> str:
    """The reference by digest of an image that is up to date, e.g. `127.0.0.1:5000/specdecode/base@sha256:...`.

    Raises LocalError for a name that no image has, when it was never built, or not since its inputs changed.
    """
    recipe_of(name)
    recorded = _recorded(name)
    if recorded is None or recorded["input_hash"] != current_hash(name):
        state = "was never built" if recorded is None else "is older than its inputs"
        raise LocalError(f"image {name} {state}", remedy=f"run `python -m specdecode_local images {name}`")
    return recorded["ref"]


def build(name: str, progress: Progress | None = None) -> str:
    """Builds and pushes the image unless the registry has it from the same inputs; its reference by digest."""
    recipe = recipe_of(name)
    progress = progress or Progress()
    privilege.require_root("images are built in a chroot, and pushed to a registry that runs as root")
    registry.up()
    remove_remains()
    base = build(recipe.base, progress) if recipe.base else None
    with _lock(name):
        digest = current_hash(name)
        recorded = _recorded(name)
        if recorded and recorded["input_hash"] == digest and in_registry(recorded["ref"]):
            return recorded["ref"]
        apt.require("buildah")
        with progress.step(f"image {name}") as step:

            def on_step(text: str) -> None:
                step.detail = text

            reference = _build_and_push(recipe, digest, base, on_step)
            step.detail = reference.rpartition("@")[2][:19]
        _record(name, digest, reference)
        return reference


def build_all(names: list[str] | None = None, progress: Progress | None = None) -> dict[str, str]:
    """Builds what is named, or everything; name -> reference by digest."""
    progress = progress or Progress()
    for name in names or []:
        recipe_of(name)
    return {name: build(name, progress) for name in names or list(RECIPES)}


def _build_and_push(recipe: Recipe, digest: str, base: str | None, on_step: Callable[[str], None]) -> str:
    text = recipe.containerfile.read_text()
    taken = image_inputs.sources(text, recipe.arguments)
    arguments = dict(recipe.arguments)
    if base:
        arguments["BASE"] = base
    arguments |= {key: os.environ[key] for key in buildah.HANDED_ON if key in taken.arguments and key in os.environ}
    storage = buildah.Storage(recipe.name)
    tag = f"localhost/{PREFIX}/{recipe.name}:latest"
    with _context(recipe.name) as context:
        image_inputs.stage(image_inputs.files_of(taken, paths.REPOSITORY), paths.REPOSITORY, context)
        for item in taken.made:
            on_step(f"make {item}")
            target = context / image_inputs.MADE / item
            target.parent.mkdir(exist_ok=True)
            recipe.made[item].make(target)
        with _pip_configuration(recipe.name) as pip:

            def build() -> None:
                on_step("build")
                storage.start_from(base or "")
                storage.build(
                    recipe.containerfile,
                    context,
                    tag=tag,
                    arguments=arguments,
                    secrets={"pip.conf": pip},
                    layers=recipe.keeps_layers,
                    on_step=on_step,
                )

            try:
                build()
            except buildah.StorageBrokenError:
                storage.drop()
                build()
    on_step(f"push to {REGISTRY}")
    # Again: a long build may have outlived a cluster that took its registry down with it.
    registry.up()
    destination = f"{REGISTRY}/{PREFIX}/{recipe.name}"
    pushed = storage.push(tag, f"{destination}:{digest[:12]}", on_step)
    if not recipe.keeps_layers:
        storage.drop()
    return f"{destination}@{pushed}"


def drop_superseded(progress: Progress) -> None:
    """Drops from the registry what no record names: images of earlier inputs, which would be built again anyway.

    Not beside a cluster, whose pods may name an earlier one, nor beside a build, which may be about to push.
    """
    if (paths.STATE / "etcd").is_dir():
        return
    with contextlib.suppress(BlockingIOError), contextlib.ExitStack() as locks:
        for name in RECIPES:
            locks.enter_context(_lock(name, wait=False))
        kept = {name: found["ref"].partition("@")[2] for name in RECIPES if (found := _recorded(name))}
        if named := list(registry.superseded(paths.registry_data() / registry.REPOSITORIES / PREFIX, kept)):
            with progress.step("drop images of earlier inputs"):
                registry.collect_from_ours(named)


def in_registry(reference: str) -> bool:
    """Whether the registry still has the manifest. Raises LocalError when the registry does not answer."""
    path, _, digest = reference.removeprefix(f"{REGISTRY}/").partition("@")
    request = urllib.request.Request(
        f"http://{REGISTRY}/v2/{path}/manifests/{digest}", method="HEAD", headers={"Accept": MANIFEST_TYPES}
    )
    # No proxy: the registry is this machine's own.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=10):
            return True
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return False
        raise LocalError(f"the registry at {REGISTRY} answered {error.code} for {path}") from error
    except OSError as error:
        raise LocalError(
            f"the registry at {REGISTRY} does not answer: {error}",
            remedy="run `make up`, or `python -m specdecode_local registry up` for the registry alone",
        ) from error


def _recorded(name: str) -> dict[str, str] | None:
    try:
        found: dict[str, str] = json.loads(_record_file(name).read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return found if {"input_hash", "ref"} <= set(found) else None


def _record(name: str, digest: str, reference: str) -> None:
    file = _record_file(name)
    fresh = file.with_name(f".{name}.{os.getpid()}")
    fresh.write_text(json.dumps({"input_hash": digest, "ref": reference}, indent=1) + "\n")
    fresh.rename(file)


def _record_file(name: str) -> Path:
    return paths.cache() / "images" / f"{name}.json"


@contextmanager
def _context(name: str) -> Iterator[Path]:
    """An empty folder for a build's context, in the cache so that a full /tmp does not matter."""
    folder = _context_folder(name)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _context_folder(name: str) -> Path:
    return paths.cache() / "images" / "contexts" / name


@contextmanager
def _pip_configuration(name: str) -> Iterator[Path]:
    """A file beside the context, so that no COPY can take it in; it may hold a registry's password."""
    file = _pip_file(name)
    file.touch(mode=0o600)
    try:
        file.write_text(buildah.pip_configuration(os.environ, buildah.pip_files(os.environ)))
        yield file
    finally:
        file.unlink()


def _pip_file(name: str) -> Path:
    return paths.cache() / "images" / f"{name}.pip.conf"


def remove_remains() -> None:
    """Removes what killed builds left behind: contexts, and settings of pip that may hold a registry's password."""
    folder = paths.cache() / "images"
    for name in RECIPES:
        with contextlib.suppress(BlockingIOError), _lock(name, wait=False):
            shutil.rmtree(_context_folder(name), ignore_errors=True)
            _pip_file(name).unlink(missing_ok=True)
    # Names of an earlier version, which no build has any more.
    for remains in folder.glob("pip-*.conf"):
        remains.unlink(missing_ok=True)
    for remains in folder.glob("contexts/*-????????"):
        shutil.rmtree(remains, ignore_errors=True)


@contextmanager
def _lock(name: str, *, wait: bool = True) -> Iterator[None]:
    """Two commands at once build an image one after the other, so the second finds it.

    Raises BlockingIOError when another has the lock and this one shall not wait.
    """
    folder = paths.cache() / "images"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f".{name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# --- The command ------------------------------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which (default: all): {', '.join(RECIPES)}")


def run(args: argparse.Namespace) -> int:
    progress = Progress()
    for name, reference in build_all(args.names or None, progress).items():
        progress.say(f"{name}\t{reference}")
    drop_superseded(progress)
    return 0
