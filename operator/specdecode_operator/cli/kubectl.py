"""The cluster, through kubectl: this is its plugin, so it is there, and knows context and credentials."""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Sequence
from typing import Any

from specdecode_operator.api import names
from specdecode_operator.api.errors import FieldError, InvalidObject

SECONDS = 30


def add_flags(parser: argparse.ArgumentParser, *, name_needed: bool = True) -> None:
    """Which object, and where."""
    parser.add_argument("name", nargs=None if name_needed else "?", help="the SpecDecodeDeployment")
    parser.add_argument("--namespace", "-n", help="its namespace; default: the context's")
    parser.add_argument("--context", help="the kubeconfig's context; default: the current one")


def call(arguments: argparse.Namespace, *words: str) -> str:
    """What kubectl prints.

    Raises:
        InvalidObject: kubectl fails, or isn't there; with its words.
    """
    command = ["kubectl", *_where(arguments), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except FileNotFoundError:
        raise InvalidObject([_fault("kubectl", "no such program", "kubectl on the path")]) from None
    except subprocess.TimeoutExpired:
        raise InvalidObject([_fault(" ".join(words), "no answer", f"one within {SECONDS} s")]) from None
    if done.returncode:
        raise InvalidObject([_fault(" ".join(words[:3]), done.stderr.strip(), "what kubectl takes")])
    return done.stdout


def the_object(arguments: argparse.Namespace) -> dict[str, Any]:
    """The object as it is now."""
    found: dict[str, Any] = json.loads(
        call(arguments, "get", f"{names.PLURAL}.{names.GROUP}", arguments.name, "-o", "json")
    )
    return found


def _where(arguments: argparse.Namespace) -> Sequence[str]:
    flags = {"--namespace": arguments.namespace, "--context": arguments.context}
    return [word for flag, value in flags.items() if value for word in (flag, value)]


def _fault(path: str, found: str, allowed: str) -> FieldError:
    return FieldError(path, found, allowed, "correct the command, or look at the cluster")
