"""Patches are applied strictly, and turned round exactly."""

import pytest
import releases
from hypothesis import given
from hypothesis import strategies as st

from specdecode_engine import hunks

LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"\n", b"  c\n"]), min_size=1, max_size=30)


@given(old=LINES, new=LINES)
def test_a_patch_and_its_reverse_are_inverse(old: list[bytes], new: list[bytes]) -> None:
    import difflib

    text = b"".join(difflib.diff_bytes(difflib.unified_diff, old, new, b"a/f", b"b/f"))
    for patch in hunks.parse(text):
        assert hunks.apply(b"".join(old), patch) == b"".join(new)
        assert hunks.apply(b"".join(new), patch.reversed()) == b"".join(old)


def test_lines_that_moved_are_found() -> None:
    (patch,) = hunks.parse(releases.patch_of({"vllm/a.py": (10, ["x\n"])}))
    text = releases.STOCK["vllm/a.py"]
    assert (
        hunks.apply(("new\n" * 7 + text).encode(), patch) == ("new\n" * 7 + text).replace("a line 10\n", "x\n").encode()
    )


def test_a_changed_context_line_does_not_fit() -> None:
    (patch,) = hunks.parse(releases.patch_of({"vllm/a.py": (10, ["x\n"])}))
    with pytest.raises(hunks.Mismatch, match=r"vllm/a\.py"):
        hunks.apply(releases.STOCK["vllm/a.py"].replace("a line 9\n", "a line nine\n").encode(), patch)


@pytest.mark.parametrize("names", [(b"/dev/null", b"b/f"), (b"a/f", b"/dev/null"), (b"a/f", b"b/g")])
def test_new_deleted_and_renamed_files_are_not_understood(names: tuple[bytes, bytes]) -> None:
    with pytest.raises(hunks.Malformed):
        hunks.parse(b"--- %s\n+++ %s\n@@ -1 +1 @@\n-x\n+y\n" % names)
