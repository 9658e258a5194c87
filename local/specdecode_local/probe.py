"""Readiness questions: each returns None when the answer is yes, else what is missing."""

from __future__ import annotations

import socket
import ssl
import urllib.error
import urllib.request
from pathlib import Path

SECONDS = 2.0


def http(url: str, context: ssl.SSLContext | None = None) -> str | None:
    """Whether a GET of the URL answers 200."""
    try:
        with urllib.request.urlopen(url, timeout=SECONDS, context=context) as response:
            return None if response.status == 200 else f"{url} answers {response.status}"
    except urllib.error.HTTPError as error:
        return f"{url} answers {error.code}"
    except OSError as error:
        return f"{url}: {error}"


def tcp(address: str, port: int) -> str | None:
    """Whether something accepts connections there."""
    try:
        socket.create_connection((address, port), timeout=SECONDS).close()
    except OSError as error:
        return f"{address}:{port}: {error}"
    return None


def unix(path: Path) -> str | None:
    """Whether something listens on the socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(SECONDS)
        try:
            connection.connect(str(path))
        except OSError as error:
            return f"{path}: {error}"
    return None


def tls_context(authority: Path, certificate: Path, key: Path) -> ssl.SSLContext:
    """A client's context that trusts our authority and shows the given certificate."""
    context = ssl.create_default_context(cafile=str(authority))
    context.load_cert_chain(str(certificate), str(key))
    return context


def unverified_context() -> ssl.SSLContext:
    """For loopback health ports whose certificate is made up in memory."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
