"""Who wrote what, from the API server's own audit log: the only witness that cannot overlook a write."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from apiserver import Object

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True)
class AuditLog:
    path: Path

    def end(self) -> int:
        """The position after the newest entry."""
        return self.path.stat().st_size

    def entries(self, start: int) -> Iterator[Object]:
        """Entries from a position on; a last line that is still being written is left out."""
        with self.path.open("rb") as log:
            log.seek(start)
            for line in log:
                if line.endswith(b"\n"):
                    yield json.loads(line)

    def writes(self, account: str, start: int) -> list[str]:
        """One line for each write of an account since a position, whatever came of it."""
        return [
            sentence(entry)
            for entry in self.entries(start)
            if entry["user"]["username"] == account and entry["verb"] in WRITES
        ]

    def requests(self, account: str, start: int) -> int:
        """How many requests of any kind an account sent: a silent log must not look like a quiet operator."""
        return sum(entry["user"]["username"] == account for entry in self.entries(start))


def sentence(entry: Object) -> str:
    about = entry.get("objectRef", {})
    what = "/".join(
        part
        for part in (about.get("resource"), about.get("namespace"), about.get("name"), about.get("subresource"))
        if part
    )
    return f"{entry['requestReceivedTimestamp']} {entry['verb']} {what} ({entry.get('responseStatus', {}).get('code')})"
