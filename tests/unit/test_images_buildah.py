"""What happens when a build fails: a registry that is slow is asked again, a wrong Containerfile is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from specdecode_local import buildah
from specdecode_local.errors import LocalError

PROGRAM = """\
#!/bin/sh
# Stands for buildah: counts its calls, and fails as often as it is told.
case "$*" in *" images") exit 0;; esac
echo call >> {folder}/calls
echo "[1/2] STEP 3/4: RUN something"
[ "$(wc -l < {folder}/calls)" -gt {failures} ] && exit 0
echo "{message}"
exit 1
"""


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> buildah.Storage:
    monkeypatch.setenv("SPECDECODE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    monkeypatch.setattr(buildah, "RETRY_SECONDS", 0.0)
    return buildah.Storage("thing")


def program(folder: Path, *, failures: int, message: str) -> None:
    file = folder / "bin" / "buildah"
    file.parent.mkdir(exist_ok=True)
    file.write_text(PROGRAM.format(folder=folder, failures=failures, message=message))
    file.chmod(0o755)


def calls(folder: Path) -> int:
    return len((folder / "calls").read_text().splitlines())


def test_a_registry_that_times_out_is_asked_again_and_the_steps_are_told(
    storage: buildah.Storage, tmp_path: Path
) -> None:
    program(tmp_path, failures=2, message="dial tcp: i/o timeout")
    told: list[str] = []
    storage.run("build", ["bud"], told.append)
    assert calls(tmp_path) == 3
    assert told[0] == "[1/2] STEP 3/4: RUN something"
    assert "a registry did not answer, try 2 of 3" in told


def test_a_registry_that_stays_away_is_named_with_the_image_and_its_log(
    storage: buildah.Storage, tmp_path: Path
) -> None:
    program(tmp_path, failures=9, message="Could not connect to deb.debian.org:80")
    with pytest.raises(LocalError, match="image thing: build failed, a registry did not answer 3 times") as error:
        storage.run("build", ["bud"], lambda _: None)
    assert "deb.debian.org" in str(error.value)
    assert str(storage.log) in str(error.value)
    assert "STEP 3/4" in storage.log.read_text()


def test_a_step_that_fails_by_itself_is_not_tried_again(storage: buildah.Storage, tmp_path: Path) -> None:
    program(tmp_path, failures=9, message="sh: nonsense: not found")
    with pytest.raises(LocalError, match="image thing: build failed") as error:
        storage.run("build", ["bud"], lambda _: None)
    assert calls(tmp_path) == 1
    assert "nonsense: not found" in str(error.value)


def test_a_build_that_hangs_is_ended_and_tried_again(
    storage: buildah.Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, failures=0, message="")
    (tmp_path / "bin" / "buildah").write_text(f"#!/bin/sh\necho call >> {tmp_path}/calls\nexec sleep 60\n")
    monkeypatch.setattr(buildah.Storage, "driver", lambda _: "overlay")
    monkeypatch.setattr(buildah, "ATTEMPT_SECONDS", 0.3)
    with pytest.raises(LocalError, match="timed out after 0 s"):
        storage.run("build", ["bud"], lambda _: None)
    assert calls(tmp_path) == 3


def test_dropping_a_storage_leaves_nothing_unpacked(storage: buildah.Storage) -> None:
    (storage.root / "overlay" / "layer").mkdir(parents=True)
    storage.drop()
    assert list(storage.root.parent.iterdir()) == []


def test_a_drop_that_is_killed_leaves_no_half_storage(
    storage: buildah.Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.start_from("base@sha256:1")
    (storage.root / "overlay" / "layer").mkdir(parents=True)

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(buildah.shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            storage.drop()
    storage.start_from("base@sha256:1")
    assert not (storage.root / "overlay").exists()
    storage.drop()
    assert list(storage.root.parent.iterdir()) == []


def test_layers_are_kept_for_the_next_build_on_the_same_base_only(storage: buildah.Storage) -> None:
    storage.start_from("base@sha256:1")
    layer = storage.root / "overlay" / "layer"
    layer.mkdir(parents=True)
    storage.start_from("base@sha256:1")
    assert layer.is_dir()
    storage.start_from("base@sha256:2")
    assert not layer.exists()


def test_layers_outlive_a_step_that_fails_but_not_a_build_that_was_killed(
    storage: buildah.Storage, tmp_path: Path
) -> None:
    program(tmp_path, failures=9, message="sh: nonsense: not found")
    storage.start_from("base")
    layer = storage.root / "overlay" / "layer"
    layer.mkdir(parents=True)
    with pytest.raises(LocalError):
        storage.run("build", ["bud"], lambda _: None)
    storage.start_from("base")
    assert layer.is_dir()
    (tmp_path / "bin" / "buildah").write_text('#!/bin/sh\ncase "$*" in *" images") exit 0;; esac\nkill -9 $$\n')
    with pytest.raises(LocalError):
        storage.run("build", ["bud"], lambda _: None)
    storage.start_from("base")
    assert not layer.exists()


@pytest.mark.parametrize(
    ("message", "broken"),
    [
        ("Error: checking if cached image exists from a previous build: getting top layer info: layer not known", True),
        ("Error: creating build container: Stat {root}/overlay/f634f406ffc9: no such file or directory", True),
        ('Error: building at STEP "RUN true": while running runtime: exit status 1', False),
        ("tool: {root}/overlay is what a step printed", False),
    ],
)
def test_a_storage_that_contradicts_itself_is_told_from_a_wrong_step(
    storage: buildah.Storage, tmp_path: Path, message: str, broken: bool
) -> None:
    program(tmp_path, failures=9, message=message.format(root=storage.root))
    with pytest.raises(LocalError) as error:
        storage.run("build", ["bud"], lambda _: None)
    assert isinstance(error.value, buildah.StorageBrokenError) is broken


def test_pips_registry_comes_from_files_and_the_environment_wins(tmp_path: Path) -> None:
    first, second = tmp_path / "first.conf", tmp_path / "second.conf"
    first.write_text("[global]\nindex-url = https://first/simple\ncert = /not/handed/on\ntimeout = 5\n")
    second.write_text("[global]\nindex-url = https://second/simple%2F\n[install]\nuser = true\n")
    given = buildah.pip_configuration({"PIP_DEFAULT_TIMEOUT": "60"}, [first, second, tmp_path / "missing"])
    assert given == "[global]\nindex-url = https://second/simple%2F\ntimeout = 60\n"
