"""What each bad input printed, as a Markdown table under dist/: for reading, and for a release's notes."""

from __future__ import annotations

from types import TracebackType

from specdecode_local import paths

FOLDER = paths.REPOSITORY / "dist" / "bad-input"


class BadInputTable:
    """Collects rows in a `with` block and writes them when it ends, whatever the tests' outcome."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.rows: list[tuple[str, str]] = []

    def add(self, bad_input: str, printed: str) -> None:
        self.rows.append((bad_input, printed))

    def __enter__(self) -> BadInputTable:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        FOLDER.mkdir(parents=True, exist_ok=True)
        (FOLDER / f"{self.title.replace(' ', '-')}.md").write_text(self.text())

    def text(self) -> str:
        lines = [f"| bad input ({self.title}) | what is printed |", "|---|---|"]
        lines += [f"| {cell(bad_input)} | {cell(printed)} |" for bad_input, printed in self.rows]
        return "\n".join(lines) + "\n"


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
