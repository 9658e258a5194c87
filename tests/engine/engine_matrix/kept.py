"""What each engine said, a file an engine: a matrix that was ended goes on where it was."""

import dataclasses
import json
import re
from dataclasses import dataclass
from pathlib import Path

from engine_matrix.report import Run
from engine_matrix.variants import Variant
from engine_matrix.workload import Result


@dataclass(frozen=True)
class Kept:
    """A folder of results that hold for one image of one line, asked in one way."""

    folder: Path
    line: str
    asked: dict[str, object]
    """What a result depends on beside its engine's name: the image, how it is run, how much it is asked."""

    def path(self, target: str, drafter: str, variant: Variant, suffix: str) -> Path:
        """Of an engine's file: its title in a file's characters."""
        name = re.sub(r"[ ,]+", "-", f"{self.line}-{target}-{drafter}-{variant.name}")
        return self.folder / f"{name}.{suffix}"

    def load(self, target: str, drafter: str, variant: Variant) -> Run | None:
        """The engine's run, unless there is none of the same image, asked the same."""
        file = self.path(target, drafter, variant, "json")
        found = json.loads(file.read_text()) if file.is_file() else {}
        if found.get("asked") != self.asked:
            return None
        return Run(self.line, target, drafter, variant, Result(**found["result"]))

    def save(self, run: Run) -> None:
        """Whole or not at all, since a run may be ended at any time."""
        file = self.path(run.target, run.drafter, run.variant, "json")
        fresh = file.with_suffix(".new")
        fresh.write_text(json.dumps({"asked": self.asked, "result": dataclasses.asdict(run.result)}) + "\n")
        fresh.rename(file)
