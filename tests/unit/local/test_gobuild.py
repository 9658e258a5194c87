"""Builds are found by content: what shapes a program changes its folder, nothing else does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from specdecode_local import gobuild, gotoolchain, paths
from specdecode_local.gobuild import Group

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
    ],
    ids=["go.mod", "go.sum", "machine", "package", "stamped variable", "tags", "folder"],
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


def test_kubernetes_is_stamped_with_the_version_that_is_pinned() -> None:
    go_mod = (paths.go_sources("kubernetes") / "go.mod").read_text()
    assert f"k8s.io/kubernetes {gobuild.KUBERNETES_VERSION} " in go_mod


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
