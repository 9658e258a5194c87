"""Whether the installed files of this package are the ones that were installed: the patches call them.

The installer leaves a hash of each (RECORD).  A checkout has none, and nothing to compare with.
"""

import base64
import hashlib
from importlib import metadata
from pathlib import Path

from specdecode_engine.errors import Finding

DISTRIBUTION = "specdecode-engine"
CHECKED = (".py", ".patch", ".json")


def edited() -> list[Finding]:
    """One finding for each file of the package that is missing or has another hash than when it was installed."""
    try:
        files = metadata.distribution(DISTRIBUTION).files or []
    except metadata.PackageNotFoundError:
        return []
    checked = [file for file in files if file.suffix in CHECKED and file.hash is not None]
    return [finding for file in checked if (finding := _compare(file))]


def _compare(file: metadata.PackagePath) -> Finding | None:
    assert file.hash is not None, "only files with a hash are compared"
    path = Path(file.locate())
    expected = file.hash.value
    found = _hash(path.read_bytes()) if path.is_file() else None
    if found == expected:
        return None
    return Finding(
        reason="edited file" if found else "missing file",
        subject=str(file),
        found=f"sha256 {found}" if found else "no file",
        expected=f"sha256 {expected}",
        action=f"Install the {DISTRIBUTION} package again.",
    )


def _hash(content: bytes) -> str:
    """As RECORD writes it: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
