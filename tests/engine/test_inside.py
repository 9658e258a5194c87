"""The tests of `inside` on both lines: kernels in Triton's interpreter, on what the CPU engines have installed."""

import subprocess
import sys
from pathlib import Path

import pytest
import wheels
from engine_matrix import image

from specdecode_local import paths

pytestmark = pytest.mark.wheels

INSIDE = Path(__file__).parent / "inside"
LOCK = paths.REPOSITORY / "requirements" / "dev.lock"
IMAGE_PYTHON = "3.11"

# Last on the path: what the image has itself is what is tested.
RUN = "import sys; sys.path.append('/pytest'); import pytest; sys.exit(pytest.main(sys.argv[1:]))"
OPTIONS = ("-q", "-ra", "-p", "no:cacheprovider", "/inside")


@pytest.fixture(scope="session")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """pytest and hypothesis for the image's Python, which has neither, as pinned for ours."""
    folder = tmp_path_factory.mktemp("pytest")
    uv = Path(sys.executable).parent / "uv"
    options = ("--quiet", "--python-version", IMAGE_PYTHON, "--only-binary", ":all:", "--constraint", str(LOCK))
    subprocess.run([str(uv), "pip", "install", *options, "--target", str(folder), "pytest", "hypothesis"], check=True)
    return folder


@pytest.mark.parametrize("line", [pytest.param(line, marks=pytest.mark.xdist_group(line)) for line in wheels.LINES])
def test_what_is_tested_inside_an_engine_holds_on_this_lines_own_files(line: str, runner: Path) -> None:
    folders = {"/pytest": runner, "/inside": INSIDE}
    with image.unpacked(f"engine-cpu-{line}") as engine:
        ours = {"HYPOTHESIS_STORAGE_DIRECTORY": "/tmp/hypothesis"}
        command = engine.command(["/opt/vllm/bin/python3", "-c", RUN, *OPTIONS], ours, folders=folders)
        done = subprocess.run(command, capture_output=True, text=True)
    print(done.stdout[-20_000:], done.stderr[-5_000:])
    assert done.returncode == 0, f"pytest in engine-cpu-{line}: exit code {done.returncode}, its output above"
