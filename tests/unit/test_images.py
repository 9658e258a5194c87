"""An image is built anew exactly when something in it can have changed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from specdecode_local import buildah, image_inputs, images, paths, registry
from specdecode_local.errors import LocalError
from specdecode_local.progress import Progress

CONTAINERFILE = """\
ARG BASE=debian:bookworm-slim
FROM ${BASE} AS build
ARG VERSION=1
# A comment with COPY elsewhere/ /
COPY lock /build/
COPY --chown=0:0 program/ \\
    # and inside a continued line
    files/v${VERSION}.txt /app/
COPY made/tool /usr/local/bin/tool
RUN echo COPY nothing /

FROM scratch
COPY --from=build /app /app
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with the files that CONTAINERFILE takes, and one it does not."""
    for name in ("lock", "program/main.py", "program/deep/part.py", "files/v1.txt", "files/v2.txt", "other"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    return tmp_path


def hashed(root: Path, *, text: str = CONTAINERFILE, made: str = "1", base: str = "b", **arguments: str) -> str:
    taken = image_inputs.sources(text, arguments)
    return image_inputs.input_hash(
        text,
        arguments=arguments,
        files=image_inputs.files_of(taken, root),
        root=root,
        made=dict.fromkeys(taken.made, made),
        base=base,
    )


def test_copy_lines_name_the_inputs_and_stages_do_not() -> None:
    taken = image_inputs.sources(CONTAINERFILE, {})
    assert taken.files == ("lock", "program/", "files/v1.txt")
    assert taken.made == ("tool",)
    assert taken.arguments == {"BASE", "VERSION"}


def test_a_build_argument_chooses_the_files() -> None:
    assert image_inputs.sources(CONTAINERFILE, {"VERSION": "2"}).files[-1] == "files/v2.txt"


def test_a_copy_in_json_form_names_its_paths() -> None:
    assert image_inputs.sources('FROM scratch\nCOPY ["a", "b", "/c/"]\n', {}).files == ("a", "b")


def test_a_build_argument_without_a_value_is_named() -> None:
    with pytest.raises(LocalError, match="VERSION has no value"):
        image_inputs.sources("FROM scratch\nARG VERSION\nCOPY v$VERSION /\n", {})


def test_a_path_that_is_not_there_is_named(root: Path) -> None:
    with pytest.raises(LocalError, match="COPY missing: nothing in"):
        image_inputs.resolve("missing", root)


CHANGES: dict[str, Callable[[Path], object]] = {
    "content": lambda root: (root / "program/main.py").write_text("other"),
    "a new file": lambda root: (root / "program/new.py").write_text(""),
    "a removed file": lambda root: (root / "program/deep/part.py").unlink(),
    "a renamed file": lambda root: (root / "program/main.py").rename(root / "program/moved.py"),
    "made executable": lambda root: (root / "lock").chmod(0o755),
    "a link instead of a file": lambda root: ((root / "lock").unlink(), (root / "lock").symlink_to("other")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_hash_changes_with_what_is_copied(root: Path, change: str) -> None:
    before = hashed(root)
    CHANGES[change](root)
    assert hashed(root) != before


UNCHANGED: dict[str, Callable[[Path], object]] = {
    "a file that is not copied": lambda root: (root / "other").write_text("changed"),
    "byte code": lambda root: (
        (root / "program/__pycache__").mkdir(),
        (root / "program/__pycache__/m.pyc").write_text(""),
    ),
    "a date": lambda root: os.utime(root / "lock", (1, 1)),
    "the umask": lambda root: (root / "lock").chmod(0o600),
    "the version not asked for": lambda root: (root / "files/v2.txt").write_text("changed"),
    "an empty folder": lambda root: (root / "program/empty").mkdir(),
}


@pytest.mark.parametrize("change", UNCHANGED)
def test_the_hash_stays_with_everything_else(root: Path, change: str) -> None:
    before = hashed(root)
    UNCHANGED[change](root)
    assert hashed(root) == before


def test_the_hash_changes_with_the_containerfile_the_arguments_what_is_made_and_the_base(root: Path) -> None:
    variants = [
        hashed(root),
        hashed(root, text=CONTAINERFILE + "USER 1\n"),
        hashed(root, VERSION="2"),
        hashed(root, made="2"),
        hashed(root, base="c"),
    ]
    assert len(set(variants)) == len(variants)


def test_the_hash_does_not_depend_on_where_the_checkout_is(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "checkout"
    root.rename(elsewhere)
    before = hashed(elsewhere)
    elsewhere.rename(root)
    assert hashed(root) == before


def test_the_context_holds_the_copied_files_alone_with_plain_modes(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (root / "lock").chmod(0o600)
    (root / "program/main.py").chmod(0o700)
    context = tmp_path_factory.mktemp("context")
    taken = image_inputs.sources(CONTAINERFILE, {})
    image_inputs.stage(image_inputs.files_of(taken, root), root, context)
    found = {
        str(file.relative_to(context)): file.stat().st_mode & 0o777 for file in context.rglob("*") if file.is_file()
    }
    assert found == {
        "lock": 0o644,
        "program/main.py": 0o755,
        "program/deep/part.py": 0o644,
        "files/v1.txt": 0o644,
    }


@pytest.mark.parametrize("name", images.RECIPES)
def test_every_recipe_has_a_containerfile_whose_inputs_exist(name: str) -> None:
    recipe = images.RECIPES[name]
    taken = image_inputs.sources(recipe.containerfile.read_text(), recipe.arguments)
    assert set(taken.made) <= set(recipe.made)
    assert image_inputs.files_of(taken, paths.REPOSITORY) or taken.made
    assert ("BASE" in taken.arguments) == (recipe.base is not None)


@pytest.mark.parametrize("name", images.RECIPES)
def test_no_stage_of_the_image_itself_keeps_a_setting_of_the_machine_that_built_it(name: str) -> None:
    """A package index that is handed on by ARG would stay in the history of every stage built on that one."""
    stages: dict[str, tuple[str, set[str]]] = {}
    last = ""
    for item in image_inputs.instructions(images.RECIPES[name].containerfile.read_text()):
        words = item.rest.split()
        if item.name == "FROM":
            last = words[2] if len(words) == 3 else "last"
            stages[last] = (words[0], set())
        elif item.name == "ARG" and last:
            stages[last][1].add(words[0].partition("=")[0])
    while last in stages:
        last, declared = stages[last]
        assert not declared & set(buildah.HANDED_ON)


@pytest.mark.parametrize("line", images.LINES)
def test_a_change_of_the_patches_builds_the_last_layers_of_an_engine_alone(line: str) -> None:
    """What takes minutes is an image of its own; of ours only the patches for CPUs are in it."""

    def taken(name: str) -> set[str]:
        recipe = images.RECIPES[name]
        return set(image_inputs.sources(recipe.containerfile.read_text(), recipe.arguments).files)

    ours = {"engine_patches/specdecode_engine/", f"engine_patches/series/v{line}/"}
    last = images.RECIPES[f"engine-cpu-{line}"]
    assert ours <= taken(last.name)
    assert last.base == f"engine-cpu-base-{line}"
    assert {path for path in taken(last.base) if path.startswith("engine_patches/")} == {
        f"engine_patches/series/cpu/v{line}/"
    }
    assert images.RECIPES[last.base].base == "base"


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(LocalError, match="no image is called 'engine'") as error:
        images.recipe_of("engine")
    assert "engine-standin" in str(error.value)


def test_what_killed_builds_left_goes_at_the_next_one_and_what_a_running_one_uses_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPECDECODE_CACHE", str(tmp_path))
    folder = tmp_path / "images"
    remains = [
        folder / "pip-cui8i9f7.conf",
        folder / "base.pip.conf",
        folder / "contexts/base",
        folder / "contexts/a-zu42rwnf",
    ]
    (folder / "contexts").mkdir(parents=True)
    for path in remains:
        path.mkdir() if "contexts" in path.parts else path.write_text("password")
    other = (
        "from specdecode_local import images\nwith images._lock('pause'), images._pip_configuration('pause') as file:\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", other + "    print(file, flush=True)\n    input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None
        used = Path(running.stdout.readline().strip())
        assert used.stat().st_mode & 0o777 == 0o600
        images.remove_remains()
        assert [path for path in [*remains, used] if path.exists()] == [used]
        running.communicate("\n")
    assert running.returncode == 0
    assert not used.exists()


def test_a_reference_is_given_only_for_the_inputs_as_they_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPECDECODE_CACHE", str(tmp_path))
    with pytest.raises(LocalError, match="was never built"):
        images.ref("pause")
    record = tmp_path / "images" / "pause.json"
    record.parent.mkdir()
    reference = f"{images.REGISTRY}/specdecode/pause@sha256:{'0' * 64}"
    record.write_text(json.dumps({"input_hash": "old", "ref": reference}))
    with pytest.raises(LocalError, match="older than its inputs"):
        images.ref("pause")
    record.write_text(json.dumps({"input_hash": images.current_hash("pause"), "ref": reference}))
    assert images.ref("pause") == reference


def link(registry: Path, repository: str, digest: str) -> Path:
    """A tag as the registry keeps it; the folder of its repository."""
    folder = registry / "docker/registry/v2/repositories/specdecode" / repository
    for file in (f"tags/{digest[-4:]}/current/link", f"revisions/{digest.replace(':', '/')}/link"):
        (folder / "_manifests" / file).parent.mkdir(parents=True)
        (folder / "_manifests" / file).write_text(digest)
    return folder


def test_images_of_earlier_inputs_go_unless_a_cluster_or_a_build_is_at_work(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPECDECODE_CACHE", str(tmp_path))
    monkeypatch.setattr(paths, "STATE", tmp_path / "state")
    collected: list[list[Path]] = []
    monkeypatch.setattr(registry, "collect_from_ours", collected.append)
    old, new = (f"sha256:{digit * 64}" for digit in "12")
    pause = link(tmp_path / "registry", "pause", old)
    link(tmp_path / "registry", "pause", new)
    gone = link(tmp_path / "registry", "gone", new)
    (tmp_path / "images").mkdir()
    images._record("pause", "inputs", f"{images.REGISTRY}/specdecode/pause@{new}")

    with images._lock("envoy"):
        images.drop_superseded(Progress())
    (tmp_path / "state" / "etcd").mkdir(parents=True)
    images.drop_superseded(Progress())
    assert collected == []

    (tmp_path / "state" / "etcd").rmdir()
    images.drop_superseded(Progress())
    assert collected == [[gone, pause / "_manifests/tags/1111", pause / "_manifests/revisions/sha256" / ("1" * 64)]]


@pytest.mark.parametrize(
    ("output", "network"),
    [
        ("ReadTimeoutError: HTTPSConnectionPool(host='registry.example', port=443): Read timed out.", True),
        ("E: Failed to fetch http://deb.debian.org/debian/pool/x.deb", True),
        ("error: dial tcp: lookup host: no such host", True),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.", False),
        ("/bin/sh: 1: nonsense: not found", False),
    ],
)
def test_only_a_registrys_trouble_is_tried_again(output: str, network: bool) -> None:
    assert buildah.is_network_failure(output) is network


def test_the_names_ignored_in_a_context_are_those_of_dockerignore() -> None:
    """The same Containerfiles build with docker, whose context is filtered by .dockerignore."""
    listed = set((paths.REPOSITORY / ".dockerignore").read_text().split("\n"))
    expected = {f"**/{name}" for name in image_inputs.IGNORED_FOLDERS} | {"**/*.pyc", "**/*.egg-info"}
    assert expected <= listed


def test_packages_of_the_base_image_are_debian_names() -> None:
    found = images.packages()
    assert "python3" in found
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9+.-]+", name) for name in found)
