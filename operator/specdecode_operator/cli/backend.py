"""A Prometheus that a command asks: which one, and its answers piece by piece."""

from __future__ import annotations

import argparse
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

from specdecode_operator.gates.samples import Sample
from specdecode_operator.metrics.backends import Backend, choose, read_backends
from specdecode_operator.metrics.errors import NoData
from specdecode_operator.metrics.fetch import fetch
from specdecode_operator.metrics.query import Question

MAX_CONFIG: Final = 1024 * 1024
PIECE_SECONDS: Final = 600.0
"""Time that is read at once, if a window isn't longer."""


def add_flags(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """Which backend."""
    backend = parser.add_mutually_exclusive_group(required=required)
    backend.add_argument("--backend-url", metavar="URL", help="a Prometheus that asks for no credential")
    backend.add_argument("--config", metavar="FILE", type=Path, help="backends, JSON")
    parser.add_argument("--backend", metavar="NAME", help="which of --config; may be left out if there is one")


def chosen(arguments: argparse.Namespace, namespace: str) -> Backend:
    """Whom to ask.

    Raises:
        InvalidObject: it can't be read, or there are several and none is named.
    """
    if arguments.backend_url is not None:
        text = json.dumps([{"name": "given", "url": arguments.backend_url}])
        (only,) = read_backends(text, "--backend-url")
        return only
    with arguments.config.open("rb") as file:
        found = read_backends(file.read(MAX_CONFIG), str(arguments.config))
    name = arguments.backend or (found[0].name if len(found) == 1 else "")
    return choose(found, name, namespace=namespace, path="--backend")


def pieces(question: Question) -> list[Question]:
    """The question in parts whose answers stay small."""
    return list(question.pieces(max(1, int(PIECE_SECONDS / question.grid.seconds))))


async def answers(question: Question, backend: Backend) -> AsyncIterator[Sequence[Sample]]:
    """Each piece's samples, as they come. One without data is a hole.

    Raises:
        NoData: all are without.
        MetricsError: there is no answer.
    """
    parts = pieces(question)
    empty: list[NoData] = []
    for part in parts:
        try:
            yield await fetch(backend, part)
        except NoData as error:
            empty.append(error)
    if len(empty) == len(parts):
        raise empty[0]
