"""images/engine, built on the release's own files: what it holds, who runs it, and what stops its start."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import wheels
from engine_matrix import image
from engine_matrix.image import Image

from specdecode_engine import manifests, start
from specdecode_engine.manifests import Manifest

pytestmark = pytest.mark.wheels

MANIFEST = "opt/specdecode/manifest.json"
WEIGHTS = (".safetensors", ".gguf", ".pt", ".bin")


@pytest.fixture(
    scope="module", params=[pytest.param(line, marks=pytest.mark.xdist_group(line)) for line in wheels.LINES]
)
def line(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def engine(line: str) -> Iterator[Image]:
    with image.unpacked(f"engine-{line}") as unpacked:
        yield unpacked


@pytest.fixture
def manifest(line: str) -> Manifest:
    return manifests.load(line)


def installed(engine: Image, path: str) -> Path:
    """A file of the release in the image."""
    (file,) = engine.root.glob(f"opt/vllm/lib/python3.*/site-packages/{path}")
    return file


def test_its_command_checks_the_files_and_is_not_roots(engine: Image) -> None:
    assert engine.entrypoint == ("specdecode-engine", "serve")
    uid, gid = map(int, engine.user.split(":"))
    assert uid > 0
    assert gid > 0


def test_the_manifest_inside_is_the_lines_whole_series(engine: Image, manifest: Manifest) -> None:
    inside = json.loads((engine.root / MANIFEST).read_text())
    assert (inside["release"], inside["digest"]) == (manifest.release, manifest.digest)
    states = {row["name"]: row["state"] for row in inside["rows"]}
    assert states == {o.name: "upstream" if o.patch is None else "active" for o in manifest.optimizations}
    assert inside == json.loads(engine.run("specdecode-engine", "list", "--json"))


def test_its_own_user_verifies_it(engine: Image, manifest: Manifest) -> None:
    said = json.loads(engine.run("specdecode-engine", "verify", "--json", user=engine.user))
    assert said == {"ok": True, "release": manifest.release, "digest": manifest.digest, "findings": []}


def test_it_brings_no_weights(engine: Image) -> None:
    assert [str(file) for file in engine.root.rglob("*") if file.suffix in WEIGHTS and file.is_file()] == []


def test_files_as_they_were_built_pass_the_check_at_start(engine: Image) -> None:
    """What comes after the check fails here, without the compiled part and torch; but it is vLLM that fails."""
    done = engine.start("/models/absent")
    assert done.returncode not in (0, start.NOT_ATTESTED)
    assert "/bin/vllm" in done.stderr
    assert "does not start" not in done.stderr


def test_one_edited_byte_stops_the_start_with_a_plain_message(engine: Image, manifest: Manifest) -> None:
    for path in (manifest.targets[0], "specdecode_engine/toggles.py"):
        file = installed(engine, path)
        content = file.read_bytes()
        comment = len('"""')  # in the text that each of these begins with: it still runs
        file.write_bytes(content[:comment] + b"#" + content[comment + 1 :])
        try:
            done = engine.start("/models/absent")
        finally:
            file.write_bytes(content)
        assert done.returncode == start.NOT_ATTESTED
        first, finding = done.stderr.splitlines()
        assert first == "specdecode: this engine does not start:"
        assert finding.startswith(f"  {path}: edited file: found ")
