"""What is read from the machine: ports, mounts, firewall rules, packages, disk."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from specdecode_local import apt, disk, firewall, mounts, ports
from specdecode_local.errors import LocalError

TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1388 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 777 1 0 100 0 0 10 0
   1: 0107630A:192B 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 778 1 0 100 0 0 10 0
   2: 0100007F:1388 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 779 1 0 100 0 0 10 0
"""

TCP6 = """\
  sl  local_address                         remote_address                        st tx_queue rx_queue tr
   0: 00000000000000000000000000000000:2382 00000000000000000000000000000000:0000 0A 0:0 00:0 0 0 0 780 1
"""


def test_only_listening_sockets_count() -> None:
    assert [(found.address, found.port, found.inode) for found in ports.parse_tcp_table(TCP)] == [
        ("127.0.0.1", 5000, "777"),
        ("10.99.7.1", 6443, "778"),
    ]


def test_a_listener_everywhere_is_in_the_way_of_every_address() -> None:
    (everywhere,) = ports.parse_tcp_table(TCP6)
    assert everywhere.address == "::"
    assert ports.conflicts(everywhere, "127.0.0.1", 9090)
    assert not ports.conflicts(everywhere, "127.0.0.1", 9091)


def test_the_same_port_of_another_address_is_free() -> None:
    registry = ports.parse_tcp_table(TCP)[0]
    assert not ports.conflicts(registry, "10.99.7.1", 5000)


def test_a_taken_port_names_the_process_that_holds_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(LocalError, match="ports that the cluster needs are taken") as raised:
            ports.require_free([("127.0.0.1", port, "gateway")], set())
        assert f"127.0.0.1:{port} (gateway) is held by pid {os.getpid()}" in str(raised.value)
        ports.require_free([("127.0.0.1", port, "gateway")], {os.getpid()})


def test_mounts_below_our_folder_come_innermost_first() -> None:
    table = "\n".join(
        f"{number} 1 0:1 / {point} rw - tmpfs tmpfs rw"
        for number, point in enumerate(["/", "/var/lib/ours", r"/var/lib/ours/a\040b", "/var/lib/ours-not"])
    )
    points = mounts.parse_mount_points(table)
    assert mounts.below(points, Path("/var/lib/ours")) == ["/var/lib/ours/a b", "/var/lib/ours"]


RULES = """\
*nat
:PREROUTING ACCEPT [0:0]
:CNI-HOSTPORT-DNAT - [0:0]
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A PREROUTING -j SOMEONE-ELSE
-A CNI-HOSTPORT-DNAT -p tcp -j ACCEPT
COMMIT
*filter
:KUBE-FIREWALL - [0:0]
:INPUT ACCEPT [0:0]
COMMIT
"""


def test_only_chains_of_kubernetes_and_cni_are_ours() -> None:
    assert firewall.parse_chains(RULES) == [("nat", "CNI-HOSTPORT-DNAT"), ("filter", "KUBE-FIREWALL")]
    assert firewall.jumps(RULES) == [("nat", "PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT")]


DOCKERS = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n-A FORWARD -j DOCKER-USER\n"


def test_a_firewall_that_would_cut_pods_off_is_seen() -> None:
    assert firewall.drops_forwarded(DOCKERS)
    assert not firewall.drops_forwarded(DOCKERS + "-A FORWARD -s 10.244.0.0/16 -j ACCEPT\n")
    assert not firewall.drops_forwarded("*filter\n:FORWARD ACCEPT [0:0]\n")


def test_tables_are_read_with_their_family() -> None:
    assert firewall.parse_tables("table ip nat\ntable ip6 kube-proxy\n") == [("ip", "nat"), ("ip6", "kube-proxy")]


def test_a_package_that_was_removed_but_left_its_files_is_missing() -> None:
    listing = "runc install ok installed\nhaproxy deinstall ok config-files\n"
    assert apt.parse_installed(listing) == {"runc"}


def test_too_little_disk_is_said_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="are needed") as raised:
        disk.require([disk.Need("images", 1e9, tmp_path / "not" / "there" / "yet")])
    assert "images" in str(raised.value)
    assert "SPECDECODE_CACHE" in str(raised.value)


def test_what_is_there_already_is_not_counted_again() -> None:
    def total(**there: bool) -> float:
        return sum(need.gigabytes for need in disk.needs(**there))

    cold = total(programs=False, images=False, cluster=False)
    warm = total(programs=True, images=True, cluster=False)
    repair = total(programs=True, images=True, cluster=True)
    assert repair < warm < cold <= 40


@pytest.mark.parametrize(("gigabytes", "says"), [(0.5, ""), (1.0, "1 GB of disk (images)")])
def test_less_than_a_gigabyte_is_not_worth_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gigabytes: float, says: str
) -> None:
    monkeypatch.setattr(disk, "free_gigabytes", lambda path: 2.0)
    assert disk.require([disk.Need("images", gigabytes, tmp_path)]) == says
