"""The files our programs get: one address for a purpose, nothing reachable from outside, nothing that cuts streams."""

from __future__ import annotations

import datetime
import ipaddress
import re
from collections import Counter
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from specdecode_local import addresses, certs, gateway, manifests, paths, trays
from specdecode_local.components import apiserver, containerd, coredns, forward, kubelet, prometheus

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
IMAGES = gateway.Images(controller="127.0.0.1:5000/a@sha256:" + "1" * 64, proxy="127.0.0.1:5000/b@sha256:" + "2" * 64)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(paths, "CERTIFICATES", tmp_path)
    monkeypatch.setattr(paths, "KUBECONFIG", tmp_path / "kubeconfig")
    return tmp_path


def test_no_two_purposes_share_a_port() -> None:
    twice = [
        pair for pair, count in Counter((address, port) for address, port, _ in addresses.USED).items() if count > 1
    ]
    assert twice == []


def test_ranges_do_not_overlap() -> None:
    ranges = [ipaddress.ip_network(text) for text in (addresses.PODS, addresses.SERVICES, f"{addresses.NODE}/32")]
    assert not any(one.overlaps(other) for one in ranges for other in ranges if one is not other)
    own, simulated = ipaddress.ip_network(addresses.POD_GATEWAY_SUBNET), ipaddress.ip_network(addresses.TRAY_PODS)
    assert not own.overlaps(simulated)
    assert all(part.subnet_of(ranges[0]) for part in (own, simulated))
    assert ipaddress.ip_address(addresses.GATEWAY_SERVICE) in ranges[1]


def test_every_listening_address_is_loopback_or_the_nodes() -> None:
    assert {address for address, _, _ in addresses.USED} == {addresses.LOOPBACK, addresses.NODE}
    bound = re.findall(r"(?m)^\s*bind (\S+)", coredns.configuration() + forward.configuration())
    assert {text.split(":")[0] for text in bound} == {addresses.LOOPBACK, addresses.NODE}


def test_the_forwarder_does_not_cut_a_long_stream() -> None:
    found = dict(re.findall(r"timeout (client|server) (\d+)h", forward.configuration()))
    assert all(int(hours) >= 24 for hours in found.values())
    assert set(found) == {"client", "server"}


def test_the_audit_log_holds_writes_and_no_reads() -> None:
    reads, rest = apiserver.AUDIT_POLICY["rules"]
    assert reads == {"level": "None", "verbs": ["get", "list", "watch"]}
    assert rest == {"level": "Metadata"}


def test_a_full_disk_evicts_neither_images_nor_pods() -> None:
    found = kubelet.configuration()
    assert found["imageGCHighThresholdPercent"] == 100
    assert isinstance(found["evictionHard"], dict)
    assert found["evictionHard"]["nodefs.available"] == "0%"


def test_containerd_uses_the_pause_image_by_digest() -> None:
    reference = "127.0.0.1:5000/specdecode/pause@sha256:" + "0" * 64
    assert f'sandbox_image = "{reference}"' in containerd.configuration(reference)


def test_prometheus_scrapes_engines_the_operator_and_the_gateway() -> None:
    jobs = {job["job_name"]: job for job in prometheus.configuration()["scrape_configs"]}
    assert set(jobs) == {"engines", "operator", "envoy"}
    assert jobs["envoy"]["metrics_path"] == "/stats/prometheus"


def test_what_the_operator_says_of_objects_keeps_their_namespaces() -> None:
    jobs = {job["job_name"]: job["honor_labels"] for job in prometheus.configuration()["scrape_configs"]}
    assert jobs == {"engines": False, "operator": True, "envoy": False}


def test_prometheus_reads_the_charts_rules() -> None:
    (file,) = prometheus.configuration()["rule_files"]
    assert prometheus.component().configuration[Path(file)] == prometheus.RULES.read_text()


def test_the_gateway_takes_routes_from_every_namespace_at_a_fixed_address() -> None:
    by_kind = {item["kind"]: item for item in gateway.objects(IMAGES)}
    (listener,) = by_kind["Gateway"]["spec"]["listeners"]
    assert (listener["name"], listener["allowedRoutes"]["namespaces"]["from"]) == ("http", "All")
    service = by_kind["EnvoyProxy"]["spec"]["provider"]["kubernetes"]["envoyService"]
    assert service["patch"]["value"]["spec"]["clusterIP"] == addresses.GATEWAY_SERVICE


def test_none_of_our_programs_may_do_everything() -> None:
    roles = [item for item in manifests.base() if item["kind"] == "ClusterRole"]
    assert roles
    assert not any("*" in rule["verbs"] or "*" in rule["resources"] for role in roles for rule in role["rules"])


def test_eighteen_trays_are_one_rack_with_four_gpus_each() -> None:
    nodes = [trays.node(index) for index in range(19)]
    cliques = [node["metadata"]["labels"]["nvidia.com/gpu.clique"] for node in nodes]
    assert len(set(cliques[:18])) == 1
    assert cliques[18] != cliques[0]
    assert {node["status"]["allocatable"]["nvidia.com/gpu"] for node in nodes} == {"4"}
    assert {node["metadata"]["labels"]["kubernetes.io/arch"] for node in nodes} == {"arm64"}


def test_fewer_trays_drop_the_last_and_keep_the_rest() -> None:
    there = [trays.name(index) for index in range(4)]
    assert trays.surplus(there, 2) == ["tray-02", "tray-03"]
    assert trays.absent(there, 6) == [4, 5]


def test_certificates_are_made_once_and_again_before_they_expire(state: Path) -> None:
    assert certs.ensure(NOW)
    first = certs.authority().read_bytes()
    token_key = certs.service_account_key().read_bytes()
    assert not certs.ensure(NOW + datetime.timedelta(days=300))
    assert certs.authority().read_bytes() == first
    assert certs.ensure(NOW + datetime.timedelta(days=360))
    assert certs.authority().read_bytes() != first
    assert certs.service_account_key().read_bytes() == token_key, "running pods' tokens are signed with it"


def test_no_key_is_readable_by_others(state: Path) -> None:
    certs.ensure(NOW)
    keys = [*state.glob("*.key"), *state.glob("*kubeconfig")]
    assert len(keys) > len(certs.IDENTITIES)
    assert {oct(file.stat().st_mode & 0o077) for file in keys} == {"0o0"}


def test_the_api_server_is_trusted_under_every_name_it_is_called_by(state: Path) -> None:
    certs.ensure(NOW)
    found = x509.load_pem_x509_certificate(certs.certificate("apiserver").read_bytes())
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses_served = {str(address) for address in names.get_values_for_type(x509.IPAddress)}
    assert {addresses.NODE, addresses.API_SERVICE} <= addresses_served
    assert "kubernetes.default.svc.cluster.local" in names.get_values_for_type(x509.DNSName)


def test_the_administrators_kubeconfig_stands_alone(state: Path) -> None:
    certs.ensure(NOW)
    found = yaml.safe_load(paths.KUBECONFIG.read_text())
    assert "certificate-authority-data" in found["clusters"][0]["cluster"]
    assert set(found["users"][0]["user"]) == {"client-certificate-data", "client-key-data"}
