"""Stand-ins for CUDA's libraries: which library gets which symbols."""

from types import ModuleType
from typing import Any


def shared(stubs: ModuleType, soname: str, needed: list[str], undefined: dict[str, str], **more: Any) -> Any:
    """An object that wants `undefined` (symbol -> version, or an empty string)."""
    symbols = frozenset(stubs.Symbol(name, version) for name, version in undefined.items())
    return stubs.SharedObject(
        soname, tuple(needed), more.get("versions", {}), symbols, frozenset(more.get("defined", ()))
    )


def names(found: dict[str, Any]) -> dict[str, set[str]]:
    return {soname: {symbol.name for symbol in symbols} for soname, symbols in found.items()}


def test_a_versioned_symbol_goes_to_the_library_its_version_is_wanted_from(stubs: ModuleType) -> None:
    torch = shared(
        stubs,
        "libtorch_cuda.so",
        ["libcublas.so.13", "libnvshmem_host.so.3"],
        {"cublasCreate": "libcublas.so.13", "nvshmem_init": "NVSHMEM"},
        versions={"libcublas.so.13": "libcublas.so.13", "NVSHMEM": "libnvshmem_host.so.3"},
    )
    assert names(stubs.stubs([torch], frozenset())) == {
        "libcublas.so.13": {"cublasCreate"},
        "libnvshmem_host.so.3": {"nvshmem_init"},
    }


def test_an_unversioned_symbol_goes_to_the_first_absent_library(stubs: ModuleType) -> None:
    torch = shared(stubs, "libtorch_cuda.so", ["libc.so.6", "libcusparseLt.so.0"], {"cusparseLtInit": ""})
    found = stubs.stubs([torch], frozenset({"libc.so.6"}))
    assert names(found) == {"libcusparseLt.so.0": {"cusparseLtInit"}}


def test_what_another_object_or_the_system_defines_is_left_to_it(stubs: ModuleType) -> None:
    provider = shared(stubs, "libc10.so", [], {}, defined=["c10_function"])
    torch = shared(stubs, "libtorch.so", ["libc10.so", "libnccl.so.2"], {"c10_function": "", "_ZdlPv": ""})
    assert names(stubs.stubs([provider, torch], frozenset({"_ZdlPv"}))) == {"libnccl.so.2": set()}


def test_the_drivers_own_library_is_never_stood_in_for(stubs: ModuleType) -> None:
    nvrtc = shared(stubs, "libcaffe2_nvrtc.so", ["libcuda.so.1"], {"cuLaunchKernel": ""})
    assert stubs.stubs([nvrtc], frozenset()) == {}


def test_weak_symbols_may_stay_undefined(stubs: ModuleType) -> None:
    found = stubs.parse_symbols("                 w __gmon_start__\n                 U ncclInit@libnccl.so.2\n")
    assert found == {stubs.Symbol("ncclInit", "libnccl.so.2")}


def test_versions_are_read_per_library(stubs: ModuleType) -> None:
    text = """
Version needs section '.gnu.version_r' contains 2 entries:
 Addr: 0x00  Offset: 0x00  Link: 3 (.dynstr)
  000000: Version: 1  File: libnvshmem_host.so.3  Cnt: 1
  0x0010:   Name: NVSHMEM  Flags: none  Version: 4
  0x0020: Version: 1  File: libc.so.6  Cnt: 1
  0x0030:   Name: GLIBC_2.14  Flags: none  Version: 2
"""
    assert stubs.parse_versions(text) == {"NVSHMEM": "libnvshmem_host.so.3", "GLIBC_2.14": "libc.so.6"}


def test_every_symbol_traps_and_carries_its_version(stubs: ModuleType) -> None:
    symbols = [stubs.Symbol("cublasCreate", "libcublas.so.13"), stubs.Symbol("plain")]
    assert "cublasCreate: ud2" in stubs.assembly(symbols)
    assert "plain: ud2" in stubs.assembly(symbols)
    assert stubs.version_script(symbols) == "libcublas.so.13 { global: cublasCreate; };\n"
