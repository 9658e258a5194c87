"""Overwrites the code for GPUs in shared objects with zeros: a third of the image as it is pushed and pulled.

CUDA's runtime looks into it only once a GPU is used. Nothing moves in the file, so that nothing has to be linked anew.

    python3 device_code.py FILE...        (needs readelf)
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

SECTION = re.compile(r"\s\.nv_fatbin\s+PROGBITS\s+[0-9a-f]+ (?P<offset>[0-9a-f]+) (?P<size>[0-9a-f]+) ")
CHUNK = 1 << 20


def device_code(readelf_sections: str) -> tuple[int, int] | None:
    """Where in the file the section lies and how long it is, from `readelf -SW`; None when there is none."""
    found = SECTION.search(readelf_sections)
    return (int(found["offset"], 16), int(found["size"], 16)) if found else None


def clear(file: Path, offset: int, size: int) -> None:
    with file.open("r+b") as handle:
        handle.seek(offset)
        for start in range(0, size, CHUNK):
            handle.write(bytes(min(CHUNK, size - start)))


def main(files: list[str]) -> None:
    for name in files:
        sections = subprocess.run(["readelf", "-SW", name], check=True, capture_output=True, text=True).stdout
        if place := device_code(sections):
            clear(Path(name), *place)


if __name__ == "__main__":
    main(sys.argv[1:])
