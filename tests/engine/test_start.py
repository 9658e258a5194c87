"""`specdecode-engine serve`: the check first, then vLLM in the same process."""

import subprocess
import sys
from pathlib import Path

import pytest

from specdecode_engine import __main__ as cli
from specdecode_engine import manifests, overlay, start
from specdecode_engine.manifests import Manifest


class Became(Exception):
    """What the process would have become."""


@pytest.fixture
def installed(root: Path, manifest: Manifest, monkeypatch: pytest.MonkeyPatch) -> Path:
    def become(file: str, words: list[str]) -> None:
        raise Became(file, *words)

    monkeypatch.setattr(start, "installed_root", lambda: root)
    monkeypatch.setattr(manifests, "of_installed_release", lambda: manifest)
    monkeypatch.setattr("os.execvp", become)
    overlay.apply(root, manifest)
    return root


@pytest.mark.usefixtures("installed")
def test_a_verified_engine_becomes_vllm_with_its_arguments_and_the_attestation_on_its_port() -> None:
    with pytest.raises(Became) as became:
        cli.main(["serve", "/models/plain", "--port", "8000", "--json"])
    assert became.value.args == (
        *("vllm", "vllm", "serve", "/models/plain", "--port", "8000", "--json"),
        *("--middleware", "specdecode_engine.asgi.Attested"),
    )


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("SPECDECODE_EXPECT_MANIFEST", "f" * 64, "another manifest than the pod's revision names"),
        ("SPECDECODE_DISABLE", "nonsense", "unknown optimization"),
    ],
)
@pytest.mark.usefixtures("installed")
def test_an_engine_that_may_not_start_never_becomes_vllm(
    variable: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SystemExit) as left:
        cli.main(["serve", "/models/plain"])
    assert left.value.code == 78
    assert said in capsys.readouterr().err


def test_one_edited_byte_keeps_it_from_starting(installed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = installed / "vllm/b.py"
    path.write_bytes(path.read_bytes().replace(b"b", b"B", 1))
    with pytest.raises(SystemExit):
        cli.main(["serve", "/models/plain"])
    assert "vllm/b.py: edited file" in capsys.readouterr().err


def test_the_check_loads_no_telemetry_that_could_stop_it() -> None:
    loaded = "import sys, specdecode_engine.__main__; print(*(m for m in sys.modules if '.telemetry' in m))"
    environment = {"PYTHONPATH": str(Path(cli.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", loaded], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
