"""What `specdecode-engine list` says of each optimization on both releases' own files, and the test behind each cell.

    PYTHONPATH=tests/engine:engine_patches:local python -m engine_states docs/engine-states.md

writes the page's table anew.  Each state is what the command prints of a tree of installed files, or what an engine
says of itself; nothing in the table is remembered but the names of the tests.
"""

import contextlib
import io
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import wheels

from specdecode_engine import __main__ as command
from specdecode_engine import attestation, overlay, toggles
from specdecode_engine.errors import Refused
from specdecode_engine.manifests import Manifest

RELEASE, SERIES, OFF, EDITED = "the release", "the series", "switched off", "a byte edited"
REFUSED = "refused"
COLUMNS = ("optimization", "line", "tree", "state", "proven by")

ANY = "*"
PROOFS: Mapping[tuple[str, str, str], tuple[str, ...]] = {
    (ANY, RELEASE, "absent"): ("test_series.py::test_every_combination_applies_alone_and_reverts_to_the_release",),
    (ANY, EDITED, "edited"): ("test_series.py::test_one_edited_byte_of_any_file_shows_in_what_it_belongs_to",),
    (ANY, OFF, REFUSED): ("test_series.py::test_what_upstream_has_cannot_be_switched",),
    ("mtp-fused-metadata", SERIES, "active"): (
        "inside/test_first_step_rows.py::test_the_refresh_in_the_graph_equals_the_eager_build",
    ),
    ("mtp-fused-metadata", OFF, "disabled"): (
        "inside/test_first_step_rows.py::test_switched_off_the_update_is_the_releases",
        "test_predicates.py::test_the_first_step_is_refreshed_in_the_graph_only_where_that_is_complete",
    ),
    ("mtp-fused-metadata", ANY, "upstream"): (
        "test_predicates.py::test_upstream_refreshes_before_every_fused_step_and_builds_none_for_a_full_replay",
    ),
    ("prefix-cache-tail", SERIES, "active"): (
        "test_predicates.py::test_only_drafters_whose_tail_is_good_keep_it",
        "test_resumed_state.py::test_a_hit_goes_on_from_the_state_of_its_last_cached_block",
    ),
    ("prefix-cache-tail", OFF, "disabled"): ("test_predicates.py::test_only_drafters_whose_tail_is_good_keep_it",),
    ("prefix-cache-tail", ANY, "upstream"): ("test_predicates.py::test_upstreams_predicate_is_ours",),
    ("splitkv-decode", SERIES, "active"): (
        "inside/test_splitkv_kernels.py::test_split_equals_the_reference_and_the_2d_launch",
    ),
    ("splitkv-decode", OFF, "disabled"): ("test_predicates.py::test_switched_off_no_builder_splits",),
    ("skip-draft-rebuild", SERIES, "active"): (
        "test_predicates.py::test_a_rebuild_is_skipped_only_if_all_say_so",
        "test_predicates.py::test_a_builder_that_says_nothing_is_rebuilt",
    ),
    ("skip-draft-rebuild", OFF, "disabled"): ("test_predicates.py::test_a_builder_that_says_nothing_is_rebuilt",),
    ("skip-draft-rebuild", ANY, "upstream"): (
        "test_predicates.py::test_upstream_builds_no_draft_metadata_before_a_full_dflash_replay",
    ),
    ("uniform-mamba-metadata", SERIES, "active"): (
        "inside/test_uniform_decode.py::test_a_uniform_decode_batch_takes_the_shortcut",
        "inside/test_uniform_decode.py::test_every_field_has_the_same_value",
    ),
    ("uniform-mamba-metadata", OFF, "disabled"): (
        "inside/test_uniform_decode.py::test_every_field_has_the_same_value",
    ),
    ("shared-mamba-metadata", SERIES, "active"): (
        "inside/test_shared_mamba.py::test_every_field_and_buffer_has_the_value_of_the_groups_own_build",
    ),
    ("shared-mamba-metadata", OFF, "disabled"): (
        "inside/test_shared_mamba.py::test_only_mamba_2_without_replayssm_shares",
    ),
    ("skip-target-rebuild", SERIES, "active"): (
        "inside/test_target_replay.py::test_every_buffer_has_the_value_of_the_releases_build",
        "test_predicates.py::test_a_target_is_not_rebuilt_where_only_the_graph_reads_it",
    ),
    ("skip-target-rebuild", OFF, "disabled"): ("test_predicates.py::test_nothing_is_refreshed_when_switched_off",),
    ("telemetry", SERIES, "active"): (
        "test_telemetry_settings.py::test_every_hook_of_the_patch_is_there_and_the_recorders_only_in_sampled_steps",
    ),
    ("telemetry", OFF, "disabled"): ("test_telemetry_steps.py::test_switched_off_no_step_is_sampled",),
}
"""(optimization, tree, state) -> the tests that show what the state says, below tests/engine."""


@dataclass(frozen=True)
class Cell:
    """One optimization in one tree of one line."""

    optimization: str
    line: str
    tree: str
    state: str

    @property
    def proofs(self) -> tuple[str, ...]:
        """Its tests.  Raises KeyError if none is known."""
        keys = ((name, tree, self.state) for name in (self.optimization, ANY) for tree in (self.tree, ANY))
        return next(PROOFS[key] for key in keys if key in PROOFS)


def cells(line: str, root: Path) -> Iterator[Cell]:
    """Every cell of a line, from files installed under `root`, an empty folder that is not as it was afterwards."""
    manifest = wheels.install(line, root)
    found = {RELEASE: listed(root)}
    overlay.apply(root, manifest)
    found[SERIES] = listed(root)
    found[OFF] = {name: switched_off(root, manifest, name) for name in found[SERIES]}
    found[EDITED] = {o.name: edited(root, o.files[0])[o.name] for o in manifest.optimizations}
    for name in found[SERIES]:
        yield from (Cell(name, line, tree, states[name]) for tree, states in found.items())


def listed(root: Path) -> dict[str, str]:
    """Optimization -> its state, as the command prints it."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        assert command.main(["list", "--json", "--root", str(root)]) == 0
    return {row["name"]: row["state"] for row in json.loads(said.getvalue())["rows"]}


def switched_off(root: Path, manifest: Manifest, name: str) -> str:
    """What an engine on these files says of an optimization that it is told to do without."""
    try:
        said = attestation.attest(root, manifest, {toggles.VARIABLE: name})
    except Refused:
        return REFUSED
    return {row.name: said.state_of(row) for row in said.rows}[name]


def edited(root: Path, path: str) -> dict[str, str]:
    """What is listed while one byte of a file is another."""
    content = (root / path).read_bytes()
    (root / path).write_bytes(bytes([content[0] ^ 1]) + content[1:])
    try:
        return listed(root)
    finally:
        (root / path).write_bytes(content)


def table(found: Iterable[Cell]) -> str:
    """One row a cell, in Markdown; a test is a link to its file."""
    rows = [(c.optimization, c.line, c.tree, c.state, ", ".join(map(_link, c.proofs))) for c in found]
    return "\n".join(f"| {' | '.join(row)} |" for row in [COLUMNS, ("---",) * len(COLUMNS), *rows])


def _link(proof: str) -> str:
    file, _, name = proof.partition("::")
    return f"[{name.removeprefix('test_').replace('_', ' ')}](../tests/engine/{file})"


def written(page: str, found: Iterable[Cell]) -> str:
    """The page with this table in place of its own."""
    before = page.partition("\n|")[0].rstrip()
    return f"{before}\n\n{table(found)}\n"


def both_lines() -> list[Cell]:
    """Every cell there is: all lines of an optimization beside each other, in the order of the series."""
    with tempfile.TemporaryDirectory() as folder:
        found = [cell for line in wheels.LINES for cell in cells(line, Path(folder) / line)]
    order = list(dict.fromkeys(cell.optimization for cell in found))
    return sorted(found, key=lambda cell: order.index(cell.optimization))


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(written(file.read_text(), both_lines()))
