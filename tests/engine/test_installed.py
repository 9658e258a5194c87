"""The package that the patches call is checked too, against what its installer wrote down."""

import base64
import hashlib
import sys
from pathlib import Path

import pytest

from specdecode_engine import attestation, installed, overlay
from specdecode_engine.manifests import Manifest

FILE = "specdecode_engine/splitkv.py"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One file of the package, installed, and found before anything else."""
    site = tmp_path / "package"
    info = site / "specdecode_engine-0.1.0.dist-info"
    info.mkdir(parents=True)
    (site / FILE).parent.mkdir()
    (site / FILE).write_text("as installed\n")
    digest = base64.urlsafe_b64encode(hashlib.sha256(b"as installed\n").digest()).rstrip(b"=").decode()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: specdecode-engine\nVersion: 0.1.0\n")
    (info / "RECORD").write_text(f"{FILE},sha256={digest},13\nspecdecode_engine-0.1.0.dist-info/RECORD,,\n")
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    return site


@pytest.mark.usefixtures("package")
def test_a_package_as_installed_has_nothing_to_find() -> None:
    assert installed.edited() == []


def test_one_edited_byte_of_the_package_is_not_attested(package: Path, root: Path, manifest: Manifest) -> None:
    overlay.apply(root, manifest)
    (package / FILE).write_text("As installed\n")
    (finding,) = attestation.attest(root, manifest, {}).findings
    assert (finding.reason, finding.subject) == ("edited file", FILE)


def test_a_file_of_the_package_that_is_gone_is_found(package: Path) -> None:
    (package / FILE).unlink()
    assert [finding.reason for finding in installed.edited()] == ["missing file"]


def test_a_checkout_has_nothing_to_compare_with() -> None:
    assert installed.edited() == []
