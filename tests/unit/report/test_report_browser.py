"""The page in a real browser, where there is one: drawn in both schemes, printed, and nothing refused or missing."""

from __future__ import annotations

import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import pytest

from specdecode_operator.report import palette

PAGE = Path(__file__).resolve().parents[3] / "examples" / "report" / "report.html"
BROWSER = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None)

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium on the PATH (Debian: chromium-headless-shell)")


def browse(tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """One visit."""
    assert BROWSER is not None
    command = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
        f"--user-data-dir={tmp_path}/profile", "--enable-logging=stderr", *options, PAGE.as_uri(),
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


def corner(picture: bytes) -> str:
    """Colour of a PNG's first pixel: RGB or RGBA of eight bits, whose first line's filter has nothing to add to it."""
    assert picture[12:16] == b"IHDR"
    assert picture[24] == 8
    place, packed = 8, b""
    while place < len(picture):
        (length,) = struct.unpack(">I", picture[place : place + 4])
        if picture[place + 4 : place + 8] == b"IDAT":
            packed += picture[place + 8 : place + 8 + length]
        place += 12 + length
    return "#" + zlib.decompressobj().decompress(packed, 16)[1:4].hex()


@pytest.mark.parametrize(("preferred", "scheme"), [(0, palette.DARK), (1, palette.LIGHT)], ids=["dark", "light"])
def test_a_browser_draws_it_in_the_scheme_that_its_reader_prefers(
    tmp_path: Path, preferred: int, scheme: dict[str, str]
) -> None:
    picture = tmp_path / "page.png"
    found = browse(
        tmp_path, f"--blink-settings=preferredColorScheme={preferred}", "--window-size=1050,1400",
        f"--screenshot={picture}",
    )  # fmt: skip
    assert corner(picture.read_bytes()) == scheme["paper"]
    assert "CONSOLE" not in found.stderr


def test_a_browser_finds_all_of_it(tmp_path: Path) -> None:
    found = browse(tmp_path, "--dump-dom")
    assert found.stdout.count("<svg") == PAGE.read_text().count("<svg")
    assert found.stdout.rstrip().endswith("</html>")
    assert "CONSOLE" not in found.stderr


def test_a_browser_prints_it(tmp_path: Path) -> None:
    browse(tmp_path, f"--print-to-pdf={tmp_path}/page.pdf", "--blink-settings=preferredColorScheme=0")
    printed = (tmp_path / "page.pdf").read_bytes()
    assert printed.startswith(b"%PDF")
    assert printed.count(b"/Type /Page\n") >= 4
