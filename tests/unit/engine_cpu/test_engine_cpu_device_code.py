"""Only the code for GPUs is taken out of a shared object; and what the engine loads has byte code."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

SECTIONS = """\
  [Nr] Name              Type            Address          Off    Size   ES Flg Lk Inf Al
  [10] .rodata           PROGBITS        0000000000001000 000004 000004 00   A  0   0 32
  [11] .nv_fatbin        PROGBITS        0000000000001008 000008 200003 00   A  0   0  8
  [12] .nvFatBinSegment  PROGBITS        0000000000203000 20000b 000018 00  WA  0   0  8
"""


def test_the_section_is_found_by_its_name_and_a_library_without_one_has_none(device_code: ModuleType) -> None:
    assert device_code.device_code(SECTIONS) == (8, 0x200003)
    assert device_code.device_code(SECTIONS.replace(".nv_fatbin ", ".text      ")) is None


def test_what_lies_around_the_section_stays(device_code: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "library.so"
    file.write_bytes(b"before!!" + b"x" * 0x200003 + b"after")
    device_code.clear(file, 8, 0x200003)
    assert file.read_bytes() == b"before!!" + bytes(0x200003) + b"after"


def test_loaded_files_of_the_environment_without_byte_code_are_listed_and_no_others(
    loaded: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = tmp_path / "environment"
    environment.mkdir()
    monkeypatch.setattr(sys, "prefix", str(environment))
    for name, folder in (("compiled", environment), ("uncompiled", environment), ("elsewhere", tmp_path)):
        (folder / f"{name}.py").write_text("value = 1\n")
        spec = spec_from_file_location(f"listed_{name}", folder / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        monkeypatch.setattr(sys, "dont_write_bytecode", name != "compiled")
        module = module_from_spec(spec)
        monkeypatch.setitem(sys.modules, f"listed_{name}", module)
        spec.loader.exec_module(module)
    nowhere = ModuleType("listed_nowhere")
    nowhere.__file__ = "_ops.py"
    monkeypatch.setitem(sys.modules, "listed_nowhere", nowhere)
    assert loaded.without_byte_code() == [str(environment / "uncompiled.py")]
