"""What `make dev` runs the operator with: its own rights, the pod's settings, ports that the host has free."""

from __future__ import annotations

from pathlib import Path

import pytest

from specdecode_local import dev, paths
from specdecode_local.errors import LocalError

DEPLOYMENT = {
    "metadata": {"annotations": {}},
    "spec": {
        "replicas": 1,
        "template": {
            "spec": {
                "containers": [
                    {
                        "env": [
                            {"name": "SPECDECODE_ALLOWED_HOST_PATHS", "value": "/models"},
                            {"name": "SPECDECODE_HEALTH_PORT", "value": "8080"},
                            {"name": "SPECDECODE_WATCH_NAMESPACES", "value": ""},
                            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                        ]
                    }
                ]
            }
        },
    },
}


def test_the_kubeconfig_holds_the_accounts_token_and_nothing_of_the_administrators() -> None:
    cluster = {"server": "https://10.99.7.1:6443", "certificate-authority-data": "CA"}
    admin = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "admin", "user": {"client-key-data": "SECRET"}}],
    }
    config = dev.account_kubeconfig(admin, "TOKEN")
    assert config["clusters"][0]["cluster"] == cluster
    assert config["users"] == [{"name": "specdecode-operator", "user": {"token": "TOKEN"}}]
    assert "SECRET" not in str(config)


def test_the_process_has_the_pods_settings_but_ports_of_its_own() -> None:
    settings = dev.settings_of(DEPLOYMENT)
    assert settings == {"SPECDECODE_ALLOWED_HOST_PATHS": "/models", "SPECDECODE_HEALTH_PORT": "8080"}
    found = dev.environment(Path("/run/kubeconfig"), settings, {"PATH": "/bin"})
    assert found["SPECDECODE_ALLOWED_HOST_PATHS"] == "/models"
    assert found["SPECDECODE_HEALTH_PORT"] == str(dev.HEALTH_PORT)
    assert found["KUBECONFIG"] == "/run/kubeconfig"
    assert found["PATH"] == "/bin"


def test_a_former_run_that_crashed_does_not_leave_the_operator_at_zero() -> None:
    assert dev.replicas_before(DEPLOYMENT) == (1, False)
    crashed = {"metadata": {"annotations": {dev.BEFORE: "1"}}, "spec": {"replicas": 0}}
    assert dev.replicas_before(crashed) == (1, True)


def test_without_a_cluster_it_says_what_to_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(paths, "KUBECONFIG", tmp_path / "kubeconfig")
    with pytest.raises(LocalError, match="not up") as error, dev.instead_of_the_installed_one(dev.Progress()):
        pass
    assert "make demo" in str(error.value)
