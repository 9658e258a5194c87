"""Firewall rules that the cluster makes: kube-proxy's nftables tables, and iptables chains of the kubelet and CNI."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

from specdecode_local import addresses, paths
from specdecode_local.errors import LocalError

PROXY_TABLES = (("ip", "kube-proxy"), ("ip6", "kube-proxy"))
CHAIN_PREFIXES = ("KUBE-", "CNI-")
IPTABLES = ("iptables", "ip6tables")

Table = tuple[str, str]


def parse_tables(listing: str) -> list[Table]:
    """(family, name) from `nft list tables`."""
    fields = [line.split() for line in listing.splitlines()]
    return [(words[1], words[2]) for words in fields if len(words) == 3 and words[0] == "table"]


def parse_chains(save: str) -> list[tuple[str, str]]:
    """(table, chain) of chains that Kubernetes or CNI made, from iptables-save's output."""
    found = []
    table = ""
    for line in save.splitlines():
        if line.startswith("*"):
            table = line[1:]
        elif line.startswith(":") and line[1:].startswith(CHAIN_PREFIXES):
            found.append((table, line[1:].split()[0]))
    return found


def jumps(save: str) -> list[tuple[str, str]]:
    """(table, rule) of rules in other chains that jump to such a chain."""
    found = []
    table = ""
    for line in save.splitlines():
        if line.startswith("*"):
            table = line[1:]
        elif line.startswith("-A ") and not line[3:].startswith(CHAIN_PREFIXES):
            words = line.split()
            if "-j" in words and words[words.index("-j") + 1].startswith(CHAIN_PREFIXES):
                found.append((table, line[3:]))
    return found


def drops_forwarded(save: str) -> bool:
    """Whether packets that this machine passes on, which is what pods' packets are, are dropped by default.

    Rules that let the pods' range through make it fine again.
    """
    if not re.search(r"(?m)^:FORWARD DROP ", save):
        return False
    return not re.search(rf"(?m)^-A FORWARD .*{re.escape(addresses.PODS)}.*-j ACCEPT$", save)


def require_forwarding() -> None:
    """Raises LocalError on a machine whose firewall would cut pods off, as one with Docker on it does."""
    if not drops_forwarded(_save("iptables")):
        return
    rules = [f"iptables -I FORWARD -{side} {addresses.PODS} -j ACCEPT" for side in "sd"]
    raise LocalError(
        "this machine's firewall drops forwarded packets (iptables, chain FORWARD, policy DROP); pods could not talk",
        remedy=f"let the pods' range through (`{rules[0]}; {rules[1]}`), then `make up` again",
    )


def tables() -> list[Table]:
    return parse_tables(_output(["nft", "list", "tables"]))


def remember() -> None:
    """Notes which tables there were before us, once."""
    if not _note().exists():
        paths.STATE.mkdir(parents=True, exist_ok=True)
        _note().write_text(json.dumps(tables()))


def remove() -> None:
    """Takes our rules away; tables that were there before us stay, and so do rules of others."""
    remove_proxy_tables()
    for program in IPTABLES:
        _remove_chains(program)
    _remove_empty_tables()


def remove_proxy_tables() -> None:
    """kube-proxy's whole clean-up: in this mode its rules are all in two tables of its own."""
    for family, name in set(PROXY_TABLES) & set(tables()):
        _output(["nft", "delete", "table", family, name])


def left() -> list[str]:
    found = [f"nft table {family} {name}" for family, name in tables() if (family, name) in PROXY_TABLES]
    for program in IPTABLES:
        found += [f"{program} chain {table}/{chain}" for table, chain in parse_chains(_save(program))]
    return found


def _remove_chains(program: str) -> None:
    saved = _save(program)
    for table, rule in jumps(saved):
        # The rule is in iptables' own quoting; a shell of its own reads it back as it was written.
        _output(["sh", "-c", f"{program} -w -t {table} -D {rule}"])
    chains = parse_chains(saved)
    for action in ("-F", "-X"):
        for table, chain in chains:
            _output([program, "-w", "-t", table, action, chain])


def _remove_empty_tables() -> None:
    """iptables leaves its base tables behind; those that came with us and hold no rule go."""
    if not _note().exists():
        return
    before = {(family, name) for family, name in json.loads(_note().read_text())}
    for family, name in tables():
        if (family, name) in before or name not in ("filter", "nat", "mangle", "raw"):
            continue
        listed = json.loads(_output(["nft", "-j", "list", "table", family, name]) or '{"nftables": []}')
        if not any("rule" in entry for entry in listed["nftables"]):
            _output(["nft", "delete", "table", family, name])


def _save(program: str) -> str:
    # iptables-save makes no table; `iptables -L` would.
    return _output([f"{program}-save"]) if shutil.which(f"{program}-save") else ""


def _note() -> Path:
    return paths.STATE / "nft-tables.json"


def _output(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=20).stdout
    except FileNotFoundError:
        return ""
