"""The patches that make a line run on a CPU keep out of the files whose hashes a manifest knows.

So what is installed in images/engine-cpu verifies as it does on a GPU, and one edited byte shows.
"""

import re
from pathlib import Path

import pytest

from specdecode_engine import manifests

SERIES = manifests.series_folder()


@pytest.mark.parametrize("line", manifests.lines(SERIES))
def test_no_patch_for_cpus_touches_a_file_of_the_manifest(line: str) -> None:
    patches = sorted(Path(SERIES / "cpu" / f"v{line}").glob("*.patch"))
    touched = {path for patch in patches for path in re.findall(r"^\+\+\+ b/(\S+)", patch.read_text(), re.MULTILINE)}
    assert touched
    assert not touched & set(manifests.load(line).hashes)
