"""Which files are measured: none, unless one tree is the release's own and the other has the line's whole series."""

from collections.abc import Mapping
from pathlib import Path

from specdecode_engine import overlay, tree
from specdecode_engine.errors import Finding, Refused
from specdecode_engine.manifests import Manifest


def check(stock: Path, patched: Path, manifest: Manifest) -> Mapping[str, str]:
    """What the raw file says of them.  Raises Refused, with every file that is not as it should be."""
    for root in (stock, patched):
        overlay.check_release(root, manifest.release)
    if findings := [*_patches(stock, manifest), *overlay.verify(patched, manifest)]:
        raise Refused(findings)
    return {"release": manifest.release, "wheel": manifest.wheels["x86_64"], "manifest_digest": manifest.digest}


def _patches(root: Path, manifest: Manifest) -> list[Finding]:
    inside = tree.applied(manifest, tree.hashes(root, manifest))
    return [
        Finding(
            reason="not stock",
            subject=str(root),
            found=f"with {name}",
            expected=f"vLLM {manifest.release} as released",
            action="Give the release's own tree; the series belongs into a copy of it.",
        )
        for name in sorted(inside)
    ]
