"""Builds the Go programs of the cluster from pinned modules, once per content.

A build lies in `<cache>/go/<group>-<hash>/`, appears there in one rename, and is never changed; `<cache>/bin` holds
links to the current ones. The hash covers go.mod, go.sum, sources of our own, flags and the list of programs, so a
pin's change builds anew and everything else is found.
"""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import json
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from specdecode_local import gotoolchain, paths
from specdecode_local.errors import LocalError
from specdecode_local.progress import Progress

KUBERNETES_VERSION = "v1.34.4"
"""The newest line whose kubelet still starts on cgroup v1 without a flag."""

MEGABYTE = 1 << 20

ATTEMPTS = 4
RETRY_SECONDS = 5.0

NETWORK_FAILURES = (
    "i/o timeout",
    "TLS handshake timeout",
    "connection reset",
    "connection refused",
    "unexpected EOF",
    "Client.Timeout",
    "context deadline exceeded",
    "no such host",
    "502 Bad Gateway",
    "503 Service Unavailable",
    "504 Gateway",
    "429 Too Many Requests",
    "500 Internal Server Error",
    "stream error",
)
"""What a registry in trouble looks like in the go command's output; only these are tried again."""


@dataclass(frozen=True)
class Group:
    """Programs that share a go.mod."""

    name: str
    programs: Mapping[str, str]
    """Program name -> package."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Go variables stamped by the linker."""
    tags: tuple[str, ...] = ()
    """Build tags."""
    folders: Mapping[str, str] = field(default_factory=dict)
    """Name in the build -> `module//folder` copied out of the module cache."""
    minutes: float = 1.0
    """Seen on two cores, cold; for the announcement only."""
    on_demand: bool = False
    """Not part of every cluster: built when `trays` or a test asks for it."""


def _kubernetes_version(version: str) -> dict[str, str]:
    major, minor, _ = version.removeprefix("v").split(".")
    prefix = "k8s.io/component-base/version"
    return {f"{prefix}.gitVersion": version, f"{prefix}.gitMajor": major, f"{prefix}.gitMinor": minor}


# Groups share what is compiled where they pin the same versions. helm, envoy-gateway, coredns and prometheus do: half
# of their packages are compiled once instead of two to four times. A test says which pins part.
GROUPS = (
    Group(
        "kubernetes",
        {
            name: f"k8s.io/kubernetes/cmd/{name}"
            for name in (
                "kube-apiserver",
                "kube-controller-manager",
                "kube-scheduler",
                "kubelet",
                "kubectl",
                "kube-proxy",
            )
        },
        _kubernetes_version(KUBERNETES_VERSION),
        minutes=5,
    ),
    Group("etcd", {"etcd": "go.etcd.io/etcd/server/v3"}, minutes=0.5),
    Group("helm", {"helm": "helm.sh/helm/v3/cmd/helm"}, minutes=2),
    Group(
        "envoy-gateway",
        {"envoy-gateway": "github.com/envoyproxy/gateway/cmd/envoy-gateway"},
        folders={"gateway-helm": "github.com/envoyproxy/gateway//charts/gateway-helm"},
        minutes=3.5,
    ),
    # Of our own main.go: the plugins that we use, without the clients of clouds that the others bring.
    Group("coredns", {"coredns": "specdecode.io/local/coredns"}, minutes=0.5),
    Group(
        "prometheus",
        {name: f"github.com/prometheus/prometheus/cmd/{name}" for name in ("prometheus", "promtool")},
        # Debian's package is built without Kubernetes discovery; every other discovery is left out here.
        tags=("remove_all_sd", "enable_kubernetes_sd"),
        minutes=3,
    ),
    Group("kwok", {"kwok": "sigs.k8s.io/kwok/cmd/kwok"}, minutes=2, on_demand=True),
    Group(
        "monitors",
        {},
        folders={
            "crds": "github.com/prometheus-operator/prometheus-operator//example/prometheus-operator-crd",
        },
        minutes=0.1,
    ),
    Group("kubeconform", {"kubeconform": "github.com/yannh/kubeconform/cmd/kubeconform"}, minutes=0.1),
    Group(
        "leaderworkerset",
        {},
        folders={"crds": "sigs.k8s.io/lws//config/crd/bases"},
        minutes=0.1,
        on_demand=True,
    ),
)


def linker_flags(variables: Mapping[str, str]) -> str:
    """Flags of the linker: no symbol table, no debug information, and the variables stamped."""
    stamps = [f"-X {name}={value}" for name, value in sorted(variables.items())]
    return " ".join(["-s", "-w", *stamps])


def load_flags(group: Group) -> list[str]:
    """Flags that decide which packages a build is made of."""
    return ["-tags", ",".join(group.tags)] if group.tags else []


def build_flags(group: Group) -> list[str]:
    """Flags of `go build`; paths of this machine are not in what comes out.

    The debug information that the linker leaves out is not compiled in the first place: a sixth less to do.
    """
    return ["-trimpath", *load_flags(group), "-gcflags=all=-dwarf=false", "-ldflags", linker_flags(group.variables)]


def compiler_memory(machine: int, processors: int) -> int:
    """Bytes up to which a compiler may let garbage lie: together they get half of the machine's memory."""
    return min(max(machine // 2 // processors, 256 * MEGABYTE), 2048 * MEGABYTE)


def content_hash(group: Group, go_mod: bytes, go_sum: bytes, machine: str, sources: Sequence[bytes] = ()) -> str:
    """What decides whether two builds are the same, as 16 hex digits."""
    recipe = json.dumps(
        [group.name, dict(group.programs), linker_flags(group.variables), dict(group.folders), machine, *group.tags],
        sort_keys=True,
    )
    digest = hashlib.sha256()
    for part in (recipe.encode(), go_mod, go_sum, *sources):
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()[:16]


def outputs(programs: Mapping[str, str], folder: Path) -> list[tuple[str, list[str]]]:
    """The go command's -o and packages: one call for all whose name is their package's, which compiles side by side."""
    named = [package for name, package in programs.items() if Path(package).name == name]
    other = [(str(folder / name), [package]) for name, package in programs.items() if Path(package).name != name]
    return ([(f"{folder}/", named)] if named else []) + other


def is_network_failure(output: str) -> bool:
    """Whether the go command failed because of a registry rather than of the code."""
    return any(sign in output for sign in NETWORK_FAILURES)


def destination(group: Group) -> Path:
    """The folder of the group's current build, there or not."""
    source = paths.go_sources(group.name)
    digest = content_hash(
        group,
        (source / "go.mod").read_bytes(),
        (source / "go.sum").read_bytes(),
        platform.machine(),
        [file.read_bytes() for file in sorted(source.glob("*.go"))],
    )
    return paths.cache() / "go" / f"{group.name}-{digest}"


def built(name: str) -> bool:
    """Whether the group's current build is there."""
    return any(group.name == name and destination(group).is_dir() for group in GROUPS)


def missing() -> list[Group]:
    """The groups of the cluster that would have to be built now."""
    return [group for group in GROUPS if not group.on_demand and not built(group.name)]


def build_all(progress: Progress, names: list[str] | None = None) -> None:
    """Builds what is missing, links everything, and drops the Go caches that the builds needed."""
    wanted = [group for group in GROUPS if (not group.on_demand if names is None else group.name in names)]
    to_build = [group for group in wanted if not destination(group).is_dir()]
    for group, following in itertools.zip_longest(to_build, to_build[1:]):
        with _modules_fetched(following), progress.step(f"build {group.name}") as step:
            step.detail = f"{', '.join([*group.programs, *group.folders])}; about {group.minutes:g} min"
            build(group)
        link(group)
    for group in wanted:
        link(group)
    if not missing():
        trim()


def build(group: Group) -> Path:
    """Builds one group unless another process has done so meanwhile."""
    target = destination(group)
    with _lock(group.name):
        if target.is_dir():
            return target
        partial = target.with_name(f".{target.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        for output, packages in outputs(group.programs, partial):
            _go(group, ["build", *build_flags(group), "-o", output, *packages])
        for name, origin in group.folders.items():
            _copy_from_module(group, origin, partial / name)
        partial.rename(target)
    return target


def link(group: Group) -> None:
    """Points `<cache>/bin` at the group's current build; each link is replaced in one step."""
    paths.binaries().mkdir(parents=True, exist_ok=True)
    for name in group.programs:
        wanted = destination(group) / name
        link_path = paths.binary(name)
        if link_path.is_symlink() and link_path.readlink() == wanted:
            continue
        fresh = link_path.with_name(f".{name}.{os.getpid()}")
        fresh.symlink_to(wanted)
        fresh.rename(link_path)


def folder(group_name: str, name: str) -> Path:
    """A folder that a group's build carries, such as a chart."""
    group = next(group for group in GROUPS if group.name == group_name)
    return destination(group) / name


def build_cache() -> Path:
    """One for all groups: they share Go's own library and some modules."""
    return paths.cache() / "go-build"


def module_cache() -> Path:
    return paths.cache() / "go-modules"


def trim() -> None:
    """Removes the compiler's and the modules' caches (13 GB when all is built); the user's own are not ours.

    Not while another process builds: it does so itself at its end.
    """
    with ExitStack() as locks:
        try:
            for group in GROUPS:
                locks.enter_context(_lock(group.name, wait=False))
        except BlockingIOError:
            return
        shutil.rmtree(build_cache(), ignore_errors=True)
        # Module files are read-only, folders too: make them writable, else removal fails for anyone but root.
        for directory, _, _ in os.walk(module_cache()):
            Path(directory).chmod(0o755)
        shutil.rmtree(module_cache(), ignore_errors=True)


def environment() -> dict[str, str]:
    """The go command's environment: caches of our own unless the user names theirs, and never another toolchain.

    A compiler lives for seconds, so most never collect garbage: a seventh less to do.
    """
    memory = compiler_memory(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), os.cpu_count() or 1)
    ours = {"GOCACHE": str(build_cache()), "GOMODCACHE": str(module_cache()), "GOGC": "off", "GOMEMLIMIT": str(memory)}
    fixed = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "-buildvcs=false -mod=readonly"}
    return {**ours, **os.environ, **fixed}


def _go(group: Group, arguments: list[str]) -> str:
    """Runs the go command in the group's folder; a registry's trouble is met with a few tries."""
    go = gotoolchain.find()
    result: subprocess.CompletedProcess[str] | None = None
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(RETRY_SECONDS * attempt)
        result = subprocess.run(
            ["nice", "-n", "10", str(go), *arguments],
            cwd=paths.go_sources(group.name),
            env=environment(),
            capture_output=True,
            text=True,
        )
        if result.returncode == 0:
            return result.stdout
        if not is_network_failure(result.stderr):
            break
    assert result is not None
    raise _failure(group, result.stderr)


@contextmanager
def _modules_fetched(group: Group | None) -> Iterator[None]:
    """Fetches a group's modules meanwhile: what it doesn't get, or fails to, is fetched when the group is built."""
    if group is None:
        yield
        return
    command = ["nice", "-n", "15", str(gotoolchain.find()), "list", "-deps", *load_flags(group)]
    with subprocess.Popen(
        [*command, *group.programs.values()],
        cwd=paths.go_sources(group.name),
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield
        finally:
            process.terminate()


def _failure(group: Group, output: str) -> LocalError:
    tail = "\n".join(output.strip().splitlines()[-8:])
    if is_network_failure(output):
        return LocalError(
            f"the Go module registry did not answer while building {group.name}, {ATTEMPTS} times in a row",
            detail=tail,
            remedy="check the network or set GOPROXY to a registry that answers, then run the same command again; "
            "what is built already is kept",
        )
    return LocalError(
        f"building {group.name} failed",
        detail=tail,
        remedy=f"see {paths.go_sources(group.name) / 'go.mod'} for what is pinned; the output above names the package",
    )


def _copy_from_module(group: Group, origin: str, target: Path) -> None:
    module, _, inside = origin.partition("//")
    directory = json.loads(_go(group, ["mod", "download", "-json", module]))["Dir"]
    shutil.copytree(Path(directory) / inside, target)
    for directory_path, _, files in os.walk(target):
        Path(directory_path).chmod(0o755)
        for file in files:
            (Path(directory_path) / file).chmod(0o644)


@contextmanager
def _lock(name: str, *, wait: bool = True) -> Iterator[None]:
    """Two `up` at once build one after the other, not the same thing twice.

    Raises BlockingIOError when another process has the lock and this one shall not wait.
    """
    folder_path = paths.cache() / "go"
    folder_path.mkdir(parents=True, exist_ok=True)
    with (folder_path / f".{name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
