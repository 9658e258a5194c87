"""The scripts of images/engine-cpu-base run inside the image's build, so they are files, not a package."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

IMAGE = Path(__file__).parents[3] / "images" / "engine-cpu-base"


def script(path: str) -> ModuleType:
    file = IMAGE / path
    spec = spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[file.stem] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def make_models() -> ModuleType:
    return script("models/make_models.py")


@pytest.fixture(scope="session")
def stubs() -> ModuleType:
    return script("stubs.py")


@pytest.fixture(scope="session")
def place_vllm() -> ModuleType:
    return script("place_vllm.py")


@pytest.fixture(scope="session")
def device_code() -> ModuleType:
    return script("device_code.py")


@pytest.fixture(scope="session")
def loaded() -> ModuleType:
    return script("loaded.py")
