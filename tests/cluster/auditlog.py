"""Who wrote what, from the API server's own audit log: the only witness that cannot overlook a write."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from apiserver import Object

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


class AuditLog:
    """The log from the making of this object on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.position = path.stat().st_size
        self.seen: defaultdict[str, list[Object]] = defaultdict(list)

    def writes(self) -> Mapping[str, list[Object]]:
        """The entries of each account's writes so far, whatever came of them."""
        with self.path.open("rb") as log:
            log.seek(self.position)
            for line in log:
                if not line.endswith(b"\n"):
                    break  # It is still being written: the next look reads it whole.
                self.position += len(line)
                entry = json.loads(line)
                if entry["verb"] in WRITES:
                    self.seen[entry["user"]["username"]].append(entry)
        return self.seen

    def told(self, account: str) -> list[str]:
        """One line for each write of the account."""
        return [sentence(entry) for entry in self.writes()[account]]


def sentence(entry: Object) -> str:
    about = entry.get("objectRef", {})
    what = "/".join(
        part
        for part in (about.get("resource"), about.get("namespace"), about.get("name"), about.get("subresource"))
        if part
    )
    return f"{entry['requestReceivedTimestamp']} {entry['verb']} {what} ({entry.get('responseStatus', {}).get('code')})"
