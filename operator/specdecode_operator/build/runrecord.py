"""The ConfigMap `<name>-run-<run>`: what a canary's run has seen and decided, in the order in which it did.

All that a restarted operator, a report or an offline judge needs stands in it: `run.json` says where the run is,
`plan-<step>.json` is a step's plan with its start, `samples-<step>.jsonl.gz` and `looks-<step>.jsonl.gz` hold what each
window showed and what each look said.
"""

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any, Final

from specdecode_operator.api import names
from specdecode_operator.build.owner import Owner, metadata

FILE: Final = "run.json"
LARGEST: Final = 512 * 1024
"""Bytes of all that it holds. The API server takes a MiB, and etcd not much more."""

MOST_UNPACKED: Final = 64 * 1024 * 1024
"""Bytes that a packed file may unpack to; a run's own are some ten MiB."""


def build(owner: Owner, run: str, files: Mapping[str, str], packed: Mapping[str, bytes]) -> dict[str, Any]:
    """The record with text files and packed ones."""
    labels = {**names.child_labels(owner.name), names.LABEL_RUN: run}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(owner, names.run_record(owner.name, run), labels),
        "data": dict(files),
        "binaryData": {name: base64.b64encode(packed[name]).decode() for name in sorted(packed)},
    }


def size_of(files: Mapping[str, str], packed: Mapping[str, bytes]) -> int:
    """Bytes that a record with these files would take in the API."""
    return sum(len(text.encode()) for text in files.values()) + sum(4 * -(-len(part) // 3) for part in packed.values())


def files_of(config_map: Mapping[str, Any]) -> dict[str, str]:
    """Its text files."""
    return dict(config_map.get("data") or {})


def packed_of(config_map: Mapping[str, Any]) -> dict[str, bytes]:
    """Its packed files."""
    return {name: base64.b64decode(text) for name, text in (config_map.get("binaryData") or {}).items()}


def plan_file(step: int) -> str:
    """Name of the file with a step's plan; steps count from 1 there, as people do."""
    return f"plan-{step + 1}.json"


def samples_file(step: int) -> str:
    """Name of the file with a step's samples."""
    return f"samples-{step + 1}.jsonl.gz"


def looks_file(step: int) -> str:
    """Name of the file with a step's looks."""
    return f"looks-{step + 1}.jsonl.gz"


def unpacked(packed: bytes) -> bytes:
    """What a packed file holds. Others may write the record, and make one that unpacks without end.

    Raises:
        ValueError: it isn't one gzip file, whole, of at most MOST_UNPACKED bytes.
    """
    unpacking = zlib.decompressobj(wbits=31)
    try:
        text = unpacking.decompress(packed, MOST_UNPACKED)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if not unpacking.eof or unpacking.unused_data:
        raise ValueError(f"cut off, more than {MOST_UNPACKED} bytes, or something behind its end")
    return text


def newest_look(config_map: Mapping[str, Any]) -> dict[str, Any]:
    """What the last look of the newest step said; empty before the first, and where somebody has made it unreadable."""
    kept = config_map.get("binaryData") or {}
    steps = sorted(name for name in kept if name.startswith("looks-"))
    try:
        told = unpacked(base64.b64decode(kept[steps[-1]])).splitlines() if steps else []
        look = json.loads(told[-1]) if told else {}
    except (ValueError, RecursionError):
        return {}
    return look if isinstance(look, dict) else {}
