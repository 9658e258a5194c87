"""Which process holds a port, so that "port taken" can name it."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

from specdecode_local.errors import LocalError

LISTEN = "0A"


@dataclass(frozen=True)
class Listener:
    """A listening TCP socket."""

    address: str
    port: int
    inode: str


def parse_tcp_table(text: str) -> list[Listener]:
    """Listening sockets from /proc/net/tcp or tcp6 (addresses there are hex, in the host's byte order)."""
    found = []
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 9 and fields[3] == LISTEN:
            address, _, port = fields[1].partition(":")
            found.append(Listener(_address(address), int(port, 16), fields[9]))
    return found


def _address(digits: str) -> str:
    if len(digits) == 8:
        return socket.inet_ntoa(struct.pack("<I", int(digits, 16)))
    words = [struct.pack("<I", int(digits[i : i + 8], 16)) for i in range(0, 32, 8)]
    return socket.inet_ntop(socket.AF_INET6, b"".join(words))


def conflicts(listener: Listener, address: str, port: int) -> bool:
    """Whether binding address:port would fail because of that listener."""
    everywhere = ("0.0.0.0", "::")
    return listener.port == port and (listener.address in (address, *everywhere) or address in everywhere)


def listeners() -> list[Listener]:
    found = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(FileNotFoundError):
            found += parse_tcp_table(Path(table).read_text())
    return found


def holder(inode: str) -> tuple[int, str] | None:
    """Pid and command line of the process that holds a socket."""
    wanted = f"socket:[{inode}]"
    for process in Path("/proc").glob("[0-9]*"):
        try:
            descriptors = list((process / "fd").iterdir())
        except OSError:
            continue
        for descriptor in descriptors:
            with contextlib.suppress(OSError):
                if os.readlink(descriptor) == wanted:
                    command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    return int(process.name), command.strip()
    return None


def require_free(wanted: list[tuple[str, int, str]], ours: set[int]) -> None:
    """Raises one LocalError that names every taken port and who has it; listeners among `ours` are fine.

    `wanted` is (address, port, what for).
    """
    taken = []
    current = listeners()
    for address, port, purpose in wanted:
        for listener in current:
            if conflicts(listener, address, port):
                found = holder(listener.inode)
                if found is not None and found[0] in ours:
                    continue
                who = f"pid {found[0]} ({found[1][:120]})" if found else "a process that cannot be seen"
                taken.append(f"{address}:{port} ({purpose}) is held by {who}")
                break
    if taken:
        raise LocalError(
            "ports that the cluster needs are taken", detail="\n".join(taken), remedy="stop those, then `make up` again"
        )
