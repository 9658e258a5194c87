"""Objects from a file, as `kubectl get -o yaml` writes them and `kubectl apply -f` reads them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from specdecode_operator.api.errors import FieldError, InvalidObject

STDIN: Final = "-"
LARGEST: Final = 16 * 1024 * 1024
"""Bytes of a file: the records and plans of five runs, and more."""
LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read(name: str, kind: str) -> list[dict[str, Any]]:
    """A file's objects of one kind; `-` is standard input.

    Raises:
        InvalidObject: it is neither YAML nor JSON, or too large.
    """
    path = "standard input" if name == STDIN else name
    text = sys.stdin.buffer.read(LARGEST + 1) if name == STDIN else _head(Path(name))
    if len(text) > LARGEST:
        raise InvalidObject([FieldError(path, "a larger file", f"at most {LARGEST} bytes", "give the objects alone")])
    try:
        return [each for document in _documents(text) for each in objects(document, kind)]
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        what = str(error).splitlines()[0] if str(error) else type(error).__name__
        allowed = f"{kind}s as kubectl get -o yaml writes them"
        raise InvalidObject([FieldError(path, what, allowed, "write the file anew")]) from None


def objects(document: Any, kind: str) -> Iterator[dict[str, Any]]:
    """Those of one document: itself, or what it lists."""
    if not isinstance(document, dict):
        return
    items = document.get("items")
    for each in items if isinstance(items, list) else (document,):
        if isinstance(each, dict) and each.get("kind") == kind:
            yield each


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(LARGEST + 1)


def _documents(text: bytes) -> Iterator[Any]:
    """Of YAML none with aliases: a few lines of them can stand for more than any memory."""
    if text.lstrip()[:1] == b"{":
        yield json.loads(text)
    elif any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=LOADER)):
        raise ValueError("an alias, of which kubectl writes none")
    else:
        yield from yaml.load_all(text, Loader=LOADER)
