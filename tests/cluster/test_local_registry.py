"""The registry's disk: what no image of ours has any more goes, what one has stays."""

from __future__ import annotations

import contextlib
import hashlib
import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml
from waiting import await_that

from specdecode_local import registry

MANIFEST = "application/vnd.oci.image.manifest.v1+json"


class Registry:
    """Debian's docker-registry with the settings of the local one, on a port and a folder of the test's own."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{probe.getsockname()[1]}"
        self.url = f"http://{address}/v2/"
        self.data = folder / "data"
        self.configuration = folder / "registry.yaml"
        storage = {"filesystem": {"rootdirectory": str(self.data)}, "delete": {"enabled": True}}
        self.configuration.write_text(
            yaml.safe_dump({"version": 0.1, "storage": storage, "http": {"addr": address}, "log": {"level": "warn"}})
        )

    @contextlib.contextmanager
    def running(self) -> Iterator[httpx.Client]:
        with subprocess.Popen(["/usr/bin/docker-registry", "serve", str(self.configuration)]) as process:
            try:
                with httpx.Client(base_url=self.url, trust_env=False) as client:
                    await_that("the registry answers", lambda: answers(client), seconds=30)
                    yield client
            finally:
                process.terminate()

    def blobs(self) -> set[str]:
        """Digests of everything that takes room."""
        return {f"sha256:{file.parent.name}" for file in self.data.glob("docker/registry/v2/blobs/sha256/*/*/data")}


def answers(client: httpx.Client) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return client.get("").status_code == 200
    return False


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def push(client: httpx.Client, repository: str, tag: str, layers: list[bytes]) -> tuple[str, set[str]]:
    """An image of these layers: its digest, and the digests of all that it is made of."""
    configuration = json.dumps({"layers": [digest(layer) for layer in layers]}).encode()
    for blob in (configuration, *layers):
        place = httpx.URL(client.post(f"{repository}/blobs/uploads/").raise_for_status().headers["location"])
        client.put(place.copy_merge_params({"digest": digest(blob)}), content=blob).raise_for_status()
    listed = [{"mediaType": "application/octet-stream", "size": len(blob), "digest": digest(blob)} for blob in layers]
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": "x/y", "size": len(configuration), "digest": digest(configuration)},
            "layers": listed,
        }
    ).encode()
    client.put(f"{repository}/manifests/{tag}", content=manifest, headers={"content-type": MANIFEST}).raise_for_status()
    return digest(manifest), {digest(blob) for blob in (manifest, configuration, *layers)}


def pulled(client: httpx.Client, repository: str, image: str) -> set[str]:
    """The digests of the layers that a pull by digest gets, each compared with its content."""
    manifest = client.get(f"{repository}/manifests/{image}", headers={"accept": MANIFEST}).raise_for_status().json()
    named = [layer["digest"] for layer in manifest["layers"]]
    return {digest(client.get(f"{repository}/blobs/{name}").raise_for_status().content) for name in named}


@pytest.fixture
def local(tmp_path: Path) -> Registry:
    return Registry(tmp_path)


def collect(local: Registry, kept: dict[str, str]) -> list[Path]:
    named = list(registry.superseded(local.data / registry.REPOSITORIES / "specdecode", kept))
    registry.collect(named, local.configuration)
    return named


def test_an_image_of_earlier_inputs_goes_with_the_layers_that_only_it_had(local: Registry) -> None:
    shared, old, new = b"shared" * 99, b"old" * 99, b"new" * 99
    with local.running() as client:
        push(client, "specdecode/engine", "1", [shared, old])
        push(client, "specdecode/gone", "1", [b"of a recipe that is no more"])
        image, wanted = push(client, "specdecode/engine", "2", [shared, new])
        _, others = push(client, "someone/else", "1", [b"not ours"])
    assert local.blobs() > wanted | others
    assert collect(local, {"engine": image})
    assert local.blobs() == wanted | others
    with local.running() as client:
        assert pulled(client, "specdecode/engine", image) == {digest(shared), digest(new)}
        again, _ = push(client, "specdecode/engine", "1", [shared, old])
        assert pulled(client, "specdecode/engine", again) == {digest(shared), digest(old)}
    assert collect(local, {"engine": image})
    assert collect(local, {"engine": image}) == []


def test_two_tags_of_one_image_are_both_kept(local: Registry) -> None:
    with local.running() as client:
        image, wanted = push(client, "specdecode/engine", "1", [b"layer"])
        assert push(client, "specdecode/engine", "2", [b"layer"]) == (image, wanted)
    assert collect(local, {"engine": image}) == []
    assert local.blobs() == wanted
