"""Stand-ins for the CUDA libraries that torch's shared objects name, so that torch loads where only a CPU works.

PyPI has torch only as a CUDA build: 2.7 GB of libraries that a CPU never calls, yet without which the dynamic linker
refuses the few torch objects that Python loads with all symbols bound. For each library that is named and absent this
writes one with the same soname which defines exactly the symbols left undefined, with the versions asked for; each of
them traps, so a call that should never happen ends the process instead of returning nonsense.

    python3 stubs.py SITE_PACKAGES        (needs binutils; a second run finds nothing to do)
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

NEEDED = re.compile(r"\(NEEDED\).*\[(?P<name>[^\]]+)\]")
VERSION_FILE = re.compile(r"Version: \d+\s+File: (?P<soname>\S+)")
VERSION_NAME = re.compile(r"Name: (?P<version>\S+)")
# Where torch's own run path looks for the CUDA libraries.
STUB_FOLDER = Path("nvidia/cu13/lib")
# What the driver brings, never a package; torch opens it by hand, if at all.
DRIVER = "libcuda.so.1"


@dataclass(frozen=True, order=True)
class Symbol:
    """A dynamic symbol; version is empty where the object asks for none."""

    name: str
    version: str = ""


@dataclass(frozen=True)
class SharedObject:
    """What the dynamic linker reads of one shared object."""

    soname: str
    needed: tuple[str, ...]
    versions: Mapping[str, str]
    """Symbol version -> soname of the library that this object wants it from."""
    undefined: frozenset[Symbol]
    defined: frozenset[str]


def parse_needed(readelf_dynamic: str) -> tuple[str, ...]:
    """Sonames of `readelf -dW`, in link order."""
    return tuple(match["name"] for match in NEEDED.finditer(readelf_dynamic))


def parse_versions(readelf_versions: str) -> dict[str, str]:
    """Version name -> soname, from the needs section of `readelf -VW`."""
    versions: dict[str, str] = {}
    soname = ""
    for line in readelf_versions.partition(".gnu.version_r")[2].splitlines():
        if file := VERSION_FILE.search(line):
            soname = file["soname"]
        elif name := VERSION_NAME.search(line):
            versions[name["version"]] = soname
    return versions


def parse_symbols(nm_output: str) -> frozenset[Symbol]:
    """Symbols of `nm -D --with-symbol-versions`; weak undefined ones may stay unresolved and are left out."""
    symbols = set()
    for line in nm_output.splitlines():
        *_, kind, name = line.split()
        if kind in ("w", "v"):
            continue
        base, _, version = name.partition("@")
        symbols.add(Symbol(base, version.lstrip("@")))
    return frozenset(symbols)


def stubs(objects: Iterable[SharedObject], elsewhere: frozenset[str]) -> dict[str, frozenset[Symbol]]:
    """Soname of each absent library -> the symbols it must define.

    `elsewhere` names what the process has without these objects: system libraries' sonames, and the symbols of those
    and of the interpreter. A versioned symbol goes into the library that its object wants the version from, any other
    into the first absent library that the object names: the dynamic linker looks in all of them.
    """
    objects = list(objects)
    present = elsewhere.union(shared.soname for shared in objects)
    defined = elsewhere.union(*(shared.defined for shared in objects))
    wanted: dict[str, set[Symbol]] = defaultdict(set)
    for shared in objects:
        absent = [name for name in shared.needed if name not in present and name != DRIVER]
        for name in absent:
            wanted[name]
        for symbol in shared.undefined:
            if (library := shared.versions.get(symbol.version)) in absent:
                wanted[library].add(symbol)
            elif absent and not symbol.version and symbol.name not in defined:
                wanted[absent[0]].add(symbol)
    return {name: frozenset(symbols) for name, symbols in sorted(wanted.items())}


def assembly(symbols: Iterable[Symbol]) -> str:
    """Each symbol as a function of one instruction that traps (x86-64)."""
    names = sorted({symbol.name for symbol in symbols})
    return ".text\n" + "".join(f".globl {name}\n.type {name}, @function\n{name}: ud2\n" for name in names)


def version_script(symbols: Iterable[Symbol]) -> str:
    """Linker script that gives each symbol the version its callers ask for."""
    nodes: dict[str, set[str]] = defaultdict(set)
    for symbol in symbols:
        if symbol.version:
            nodes[symbol.version].add(symbol.name)
    return "".join(f"{node} {{ global: {'; '.join(sorted(names))}; }};\n" for node, names in sorted(nodes.items()))


def output_of(*command: str | Path) -> str:
    """Standard output of a command that must succeed."""
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout


def inspect(path: Path) -> SharedObject:
    """Reads one shared object; its file name is its soname in every wheel concerned."""
    return SharedObject(
        soname=path.name,
        needed=parse_needed(output_of("readelf", "-dW", path)),
        versions=parse_versions(output_of("readelf", "-VW", path)),
        undefined=parse_symbols(output_of("nm", "-D", "--undefined-only", "--with-symbol-versions", path)),
        defined=defined_by(path),
    )


def defined_by(path: Path) -> frozenset[str]:
    """Names of the dynamic symbols that a file defines."""
    return frozenset(symbol.name for symbol in parse_symbols(output_of("nm", "-D", "--defined-only", path)))


def system_libraries() -> dict[str, Path]:
    """Soname -> file, from the dynamic linker's cache."""
    lines = [line for line in output_of("/sbin/ldconfig", "-p").splitlines() if "=>" in line and "x86-64" in line]
    return {line.split()[0]: Path(line.rpartition("=> ")[2]) for line in lines}


def link_stub(target: Path, symbols: frozenset[Symbol]) -> None:
    """Assembles and links one stand-in."""
    with tempfile.TemporaryDirectory() as folder:
        code, code_object, script = (Path(folder) / name for name in ("stub.s", "stub.o", "stub.map"))
        code.write_text(assembly(symbols))
        script.write_text(version_script(symbols))
        output_of("as", "--noexecstack", "-o", code_object, code)
        versions = [f"--version-script={script}"] if script.stat().st_size else []
        output_of("ld", "-shared", "-soname", target.name, *versions, "-o", target, code_object)


def write_stubs(site_packages: Path) -> Mapping[str, int]:
    """Writes what is absent; returns soname -> number of symbols."""
    folder = site_packages / STUB_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    paths = [*site_packages.glob("torch/lib/*.so*"), *site_packages.glob("torch/_C*.so"), *folder.glob("*.so*")]
    objects = [inspect(path) for path in paths]
    system = system_libraries()
    named = {name for shared in objects for name in shared.needed} & system.keys()
    elsewhere = frozenset(system).union(*(defined_by(system[name]) for name in named), defined_by(Path(sys.executable)))
    wanted = stubs(objects, elsewhere)
    for soname, symbols in wanted.items():
        link_stub(folder / soname, symbols)
    return {soname: len(symbols) for soname, symbols in wanted.items()}


if __name__ == "__main__":
    for soname, count in write_stubs(Path(sys.argv[1])).items():
        print(f"{soname}: {count} symbols")
