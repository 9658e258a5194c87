"""Patches go onto installed files whole and exactly, or the build stops."""

import subprocess
from pathlib import Path

import pytest

IMAGE = Path(__file__).parents[3] / "images" / "engine-cpu-base"
SERIES = IMAGE.parents[1] / "engine_patches" / "series" / "cpu"

PATCH = """\
From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001
From: specdecode <specdecode@localhost>
Date: Sun, 29 Nov 2026 00:00:00 +0000
Subject: [PATCH] Answer

---
diff --git a/vllm/answer.py b/vllm/answer.py
--- a/vllm/answer.py
+++ b/vllm/answer.py
@@ -2,3 +2,3 @@
 b = 2
-answer = 41
+answer = 42
 d = 4
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "site/vllm").mkdir(parents=True)
    (tmp_path / "site/vllm/answer.py").write_text("a = 1\nb = 2\nanswer = 41\nd = 4\n")
    (tmp_path / "series").mkdir()
    (tmp_path / "series/0001-answer.patch").write_text(PATCH)
    return tmp_path / "site"


def apply(site: Path) -> subprocess.CompletedProcess[str]:
    command = ["sh", str(IMAGE / "apply.sh"), str(site), str(site.parent / "series")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_series_that_fits_is_applied(site: Path) -> None:
    done = apply(site)
    assert done.returncode == 0, done.stderr
    assert (site / "vllm/answer.py").read_text() == "a = 1\nb = 2\nanswer = 42\nd = 4\n"


@pytest.mark.parametrize("content", ["a = 1\nb = 3\nanswer = 41\nd = 4\n", "a = 1\nb = 2\nanswer = 42\nd = 4\n"])
def test_a_changed_file_or_a_second_application_stops_the_build(site: Path, content: str) -> None:
    (site / "vllm/answer.py").write_text(content)
    done = apply(site)
    assert done.returncode != 0
    assert "0001-answer.patch does not fit the installed release" in done.stderr


@pytest.mark.parametrize("line", ["v0.33.0", "v0.30.0"])
def test_each_line_has_the_same_hooks_in_the_same_order(line: str) -> None:
    names = [file.name for file in sorted((SERIES / line).glob("*.patch"))]
    assert names == [file.name for file in sorted((SERIES / "v0.33.0").glob("*.patch"))]
    assert [name[:4] for name in names] == [f"{number:04}" for number in range(1, len(names) + 1)]
