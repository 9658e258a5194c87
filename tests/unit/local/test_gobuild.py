"""Builds are found by content: what shapes a program changes its folder, nothing else does."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest

from specdecode_local import gobuild, gotoolchain, paths
from specdecode_local.gobuild import Group
from specdecode_local.progress import Progress

GROUP = Group("tools", {"tool": "example.org/tool"}, {"example.org/version.v": "1"})


def digest(group: Group = GROUP, go_mod: bytes = b"mod", go_sum: bytes = b"sum", machine: str = "x86_64") -> str:
    return gobuild.content_hash(group, go_mod, go_sum, machine)


def test_the_same_content_has_the_same_hash() -> None:
    assert digest() == digest()


@pytest.mark.parametrize(
    "other",
    [
        digest(go_mod=b"other"),
        digest(go_sum=b"other"),
        digest(machine="aarch64"),
        digest(replace(GROUP, programs={"tool": "example.org/other"})),
        digest(replace(GROUP, variables={"example.org/version.v": "2"})),
        digest(replace(GROUP, tags=("fast",))),
        digest(replace(GROUP, folders={"chart": "example.org/tool//chart"})),
        gobuild.content_hash(GROUP, b"mod", b"sum", "x86_64", [b"package main"]),
    ],
    ids=["go.mod", "go.sum", "machine", "package", "stamped variable", "tags", "folder", "source of our own"],
)
def test_what_shapes_a_program_changes_the_hash(other: str) -> None:
    assert other != digest()


def test_an_announcement_is_not_part_of_the_content() -> None:
    assert digest(replace(GROUP, minutes=9)) == digest()


def test_programs_named_as_their_package_are_built_in_one_call() -> None:
    programs = {"kubelet": "k8s.io/cmd/kubelet", "kubectl": "k8s.io/cmd/kubectl", "etcd": "go.etcd.io/server/v3"}
    assert gobuild.outputs(programs, Path("/b")) == [
        ("/b/", ["k8s.io/cmd/kubelet", "k8s.io/cmd/kubectl"]),
        ("/b/etcd", ["go.etcd.io/server/v3"]),
    ]


def test_every_group_has_its_pins_and_names_every_program_in_them() -> None:
    for group in gobuild.GROUPS:
        go_mod = (paths.go_sources(group.name) / "go.mod").read_text()
        for package in group.programs.values():
            assert package in go_mod, f"{group.name}: {package} is no tool of its go.mod, so its pins may miss"
        assert (paths.go_sources(group.name) / "go.sum").stat().st_size > 0


def test_what_only_a_test_asks_for_is_not_built_with_the_cluster(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPECDECODE_CACHE", str(tmp_path))
    wanted = {group.name for group in gobuild.missing()}
    on_demand = {group.name for group in gobuild.GROUPS if group.on_demand}
    assert on_demand
    assert wanted == {group.name for group in gobuild.GROUPS} - on_demand


def pins(group: str) -> dict[str, str]:
    """Module -> version that a group is built from."""
    text = (paths.go_sources(group) / "go.mod").read_text()
    return dict(re.findall(r"(?m)^\s+(\S+) (v\S+)(?: // indirect)?$", text))


def test_what_these_groups_have_in_common_is_pinned_to_one_version_and_so_compiled_once() -> None:
    seen: dict[str, dict[str, list[str]]] = {}
    for group in ("helm", "envoy-gateway", "coredns", "prometheus"):
        for module, version in pins(group).items():
            seen.setdefault(module, {}).setdefault(version, []).append(group)
    assert len(seen["k8s.io/client-go"]) == 1
    assert {module: versions for module, versions in seen.items() if len(versions) > 1} == {}


def test_kubernetes_is_stamped_with_the_version_that_is_pinned() -> None:
    go_mod = (paths.go_sources("kubernetes") / "go.mod").read_text()
    assert f"k8s.io/kubernetes {gobuild.KUBERNETES_VERSION} " in go_mod


GO = """\
#!/bin/sh
# Stands for go: building `first` ends once the modules of `second` have been asked for.
case "$1 $PWD" in
version*) echo go version go9.9.9 linux/amd64 ;;
list*/second) touch {folder}/fetched ;;
build*/first) for _ in $(seq 200); do [ -e {folder}/fetched ] && exit 0; sleep 0.05; done; exit 1 ;;
esac
"""


@pytest.fixture
def two_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two groups of one program each, a go command that is a script, and a cache of their own."""
    monkeypatch.setenv("SPECDECODE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(paths, "go_sources", lambda name: tmp_path / "sources" / name)
    monkeypatch.setattr(gobuild, "GROUPS", tuple(Group(name, {name: f"org/{name}"}) for name in ("first", "second")))
    for name in ("first", "second"):
        (tmp_path / "sources" / name).mkdir(parents=True)
        (tmp_path / "sources" / name / "go.mod").write_text("go 1.26\n")
        (tmp_path / "sources" / name / "go.sum").touch()
    (tmp_path / "go").write_text(GO.format(folder=tmp_path))
    (tmp_path / "go").chmod(0o755)
    (tmp_path / "cache" / "go-build").mkdir(parents=True)
    return tmp_path


def test_the_next_groups_modules_are_fetched_while_one_is_built(two_groups: Path) -> None:
    gobuild.build_all(Progress(io.StringIO()))
    assert (two_groups / "fetched").exists()
    assert gobuild.missing() == []
    assert not gobuild.build_cache().exists(), "nothing is left to build, so nothing needs the compiler's cache"


def test_the_compilers_cache_stays_while_another_process_builds(two_groups: Path) -> None:
    with gobuild._lock("second"):
        gobuild.trim()
        assert gobuild.build_cache().exists()
    gobuild.trim()
    assert not gobuild.build_cache().exists()


@pytest.mark.parametrize(
    ("gigabytes", "processors", "megabytes"), [(24, 2, 2048), (4, 2, 1024), (64, 64, 512), (1, 16, 256)]
)
def test_compilers_side_by_side_leave_half_of_the_memory_to_others(
    gigabytes: int, processors: int, megabytes: int
) -> None:
    assert gobuild.compiler_memory(gigabytes << 30, processors) == megabytes << 20


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ('Get "https://proxy/x": net/http: TLS handshake timeout', True),
        ("reading https://proxy/x: 503 Service Unavailable", True),
        ("undefined: foo.Bar", False),
        ("verifying module: checksum mismatch", False),
    ],
)
def test_only_a_registry_in_trouble_is_tried_again(output: str, expected: bool) -> None:
    assert gobuild.is_network_failure(output) is expected


def test_a_toolchain_must_be_as_new_as_the_newest_pin() -> None:
    assert gotoolchain.required_version(["go 1.24.0\n", "module x\n\ngo 1.26.7\n", "go 1.26\n"]) == (1, 26, 7)
    assert gotoolchain.parse_version("go version go1.26.8 linux/amd64") == (1, 26, 8)
    assert gotoolchain.parse_version("go version go1.27 linux/arm64") == (1, 27, 0)
    assert gotoolchain.parse_version("no go here") is None
