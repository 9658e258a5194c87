"""Puts the series into an installed tree and takes it out: all of it or nothing, also under kill -9.

Three steps.  Stage: every file's new content is computed, checked against the manifest and written beside the tree.
Commit: one rename of the journal.  Move: each staged file is renamed over its target.  A process killed before the
commit has changed no file; one killed after it leaves a journal, and the next apply or revert moves the rest.  Between
the two the tree does not verify, because a journal is there and because a file whose patch is missing has another hash.
Staged files are renamed, never written in place: a hard link into a package cache keeps its content.
"""

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from specdecode_engine import hunks, tree
from specdecode_engine.errors import Finding, Refused
from specdecode_engine.manifests import STOCK, Manifest


@dataclass(frozen=True)
class Move:
    """One file of a committed change: staged content `staged` becomes `path`."""

    path: str
    before: str
    after: str
    staged: str


@dataclass(frozen=True)
class Outcome:
    """What a command did."""

    changed: tuple[str, ...]
    """Files that now have another content."""
    recovered: tuple[str, ...]
    """Files that an earlier, interrupted run had left to do."""


def apply(root: Path, manifest: Manifest, names: Iterable[str] = ()) -> Outcome:
    """Put the patches `names` (all of the series if empty) into the tree under `root`, beside those already there.

    Raises Refused, with nothing changed: a file is edited or missing, the tree is read-only, or all is there already.
    """
    wanted = _known(manifest, names)
    with _only_one(root):
        recovered = recover(root, manifest)
        inside = tree.applied(manifest, tree.hashes(root, manifest))
        if wanted <= inside and not recovered:
            raise Refused([_already(root, wanted, expected="at least one of them not applied", done="applied")])
        return Outcome(_change(root, manifest, inside, inside | wanted), recovered)


def revert(root: Path, manifest: Manifest, names: Iterable[str] = ()) -> Outcome:
    """Take the patches `names` (all if empty) out of the tree.  Raises Refused as `apply` does."""
    unwanted = _known(manifest, names)
    with _only_one(root):
        recovered = recover(root, manifest)
        inside = tree.applied(manifest, tree.hashes(root, manifest))
        if not unwanted & inside:
            raise Refused([_already(root, unwanted, expected="at least one of them applied", done="reverted")])
        return Outcome(_change(root, manifest, inside, inside - unwanted), recovered)


def verify(root: Path, manifest: Manifest) -> list[Finding]:
    """Everything that keeps the tree from being stock plus the whole series; empty if it is just that."""
    return [*interrupted(root), *tree.deviations(manifest, tree.hashes(root, manifest))]


def recover(root: Path, manifest: Manifest) -> tuple[str, ...]:
    """Finish what a killed run had committed; forget what it had only staged.  Gives the files it moved.

    Raises Refused if a file is neither as before nor as after: someone else changed it meanwhile.
    """
    folder = root / tree.JOURNAL_FOLDER
    journal = folder / tree.JOURNAL
    if not journal.is_file():
        if folder.is_dir():
            shutil.rmtree(folder)
        return ()
    data = json.loads(journal.read_text())
    if data["release"] != manifest.release:
        raise Refused([_other_journal(root, data["release"], manifest)])
    return _move(root, [Move(**move) for move in data["moves"]])


def contents(manifest: Manifest, path: str, content: bytes, inside: frozenset[str], wanted: frozenset[str]) -> bytes:
    """`content` of the file `path`, which has the patches `inside`, as it is with the patches `wanted`.

    Goes back to the release's own file and forward from there, so that order of application never matters.
    """
    order = manifest.touching(path)
    for name in reversed([name for name in order if name in inside]):
        content = hunks.apply(content, _of(manifest, name, path).reversed())
    _check(manifest, path, content, STOCK)
    for name in [name for name in order if name in wanted]:
        content = hunks.apply(content, _of(manifest, name, path))
    _check(manifest, path, content, wanted & set(order))
    return content


def _of(manifest: Manifest, name: str, path: str) -> hunks.FilePatch:
    return next(patch for patch in hunks.parse(manifest.patches[name]) if patch.path == path)


def _check(manifest: Manifest, path: str, content: bytes, names: frozenset[str]) -> None:
    """The hash after a change must be the manifest's; if it is not, series and manifest do not belong together."""
    if (got := tree.sha256(content)) != manifest.hashes[path][names]:
        raise Refused(
            [
                Finding(
                    reason="series and manifest differ",
                    subject=path,
                    found=f"sha256 {got}",
                    expected=f"sha256 {manifest.hashes[path][names]}",
                    action="Install the specdecode-engine package again; a patch or its manifest was edited.",
                )
            ]
        )


def _change(root: Path, manifest: Manifest, inside: frozenset[str], wanted: frozenset[str]) -> tuple[str, ...]:
    touched = [path for path in manifest.targets if (inside ^ wanted) & set(manifest.touching(path))]
    _writable(root, touched)
    with _staging(root) as folder:
        moves = [_stage(root, folder, manifest, path, inside, wanted) for path in touched]
        _commit(folder, manifest, moves)
    return _move(root, moves)


def _stage(
    root: Path, folder: Path, manifest: Manifest, path: str, inside: frozenset[str], wanted: frozenset[str]
) -> Move:
    before = (root / path).read_bytes()
    after = contents(manifest, path, before, inside, wanted)
    staged = folder / path.replace("/", "%")
    _write(staged, after)
    shutil.copymode(root / path, staged)
    owner = (root / path).stat()
    if (owner.st_uid, owner.st_gid) != (os.geteuid(), os.getegid()):
        os.chown(staged, owner.st_uid, owner.st_gid)
    return Move(path, tree.sha256(before), tree.sha256(after), staged.name)


def _commit(folder: Path, manifest: Manifest, moves: list[Move]) -> None:
    draft = folder / f"{tree.JOURNAL}.draft"
    _write(draft, json.dumps({"release": manifest.release, "moves": [vars(move) for move in moves]}).encode())
    _sync(folder)
    draft.rename(folder / tree.JOURNAL)
    _sync(folder)


def _move(root: Path, moves: list[Move]) -> tuple[str, ...]:
    folder = root / tree.JOURNAL_FOLDER
    if changed := [finding for move in moves if (finding := _changed_meanwhile(root, folder, move))]:
        raise Refused(changed)
    left = [move for move in moves if (folder / move.staged).exists()]
    for move in left:
        os.replace(folder / move.staged, root / move.path)
        _forget_bytecode(root / move.path)
        _sync((root / move.path).parent)
    (folder / tree.JOURNAL).unlink()
    shutil.rmtree(folder)
    return tuple(move.path for move in left)


def _changed_meanwhile(root: Path, folder: Path, move: Move) -> Finding | None:
    target, staged = root / move.path, folder / move.staged
    now = tree.sha256(target.read_bytes()) if target.is_file() else None
    if staged.is_file():
        fits = now in (move.before, move.after) and tree.sha256(staged.read_bytes()) == move.after
    else:
        fits = now == move.after
    if fits:
        return None
    return Finding(
        reason="changed since an interrupted run",
        subject=move.path,
        found="no file" if now is None else f"sha256 {now}",
        expected=f"sha256 {move.before} (before) or {move.after} (after)",
        action=f"Install vLLM again, remove {folder}, then run: specdecode-engine apply",
    )


def _forget_bytecode(source: Path) -> None:
    """Cached bytecode is trusted by the size and the whole seconds of its source: a quick change could be missed."""
    for stale in (source.parent / "__pycache__").glob(f"{source.stem}.*.pyc"):
        stale.unlink(missing_ok=True)


@contextlib.contextmanager
def _staging(root: Path) -> Iterator[Path]:
    """The staging folder; gone again if staging fails.  A kill leaves it to the next run's `recover`."""
    folder = root / tree.JOURNAL_FOLDER
    try:
        folder.mkdir()
    except OSError as error:
        raise Refused([_read_only(str(root), str(error))]) from error
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder)
        raise


@contextlib.contextmanager
def _only_one(root: Path) -> Iterator[None]:
    """One apply or revert of a tree at a time; the kernel lets go of the lock if the process dies."""
    handle = os.open(root, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _writable(root: Path, paths: Iterable[str]) -> None:
    folders = sorted({str((root / path).parent) for path in paths})
    if bad := [folder for folder in folders if not os.access(folder, os.W_OK | os.X_OK)]:
        raise Refused([_read_only(folder, "no permission to write") for folder in bad])


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _known(manifest: Manifest, names: Iterable[str]) -> frozenset[str]:
    wanted = frozenset(names) or frozenset(manifest.patched)
    if unknown := sorted(wanted - set(manifest.patched)):
        raise Refused([_no_patch(manifest, name) for name in unknown])
    return wanted


def _no_patch(manifest: Manifest, name: str) -> Finding:
    return Finding(
        reason="no such patch",
        subject=name,
        found=name,
        expected=", ".join(manifest.patched),
        action=f"Correct the name; `specdecode-engine list` shows what upstream has itself in {manifest.release}.",
    )


def _already(root: Path, names: Iterable[str], *, expected: str, done: str) -> Finding:
    return Finding(
        reason=f"already {done}",
        subject=str(root),
        found=f"{', '.join(sorted(names))} {done}",
        expected=expected,
        action="Nothing to do; `specdecode-engine verify` checks the tree.",
    )


def _read_only(folder: str, found: str) -> Finding:
    return Finding(
        reason="read-only tree",
        subject=folder,
        found=found,
        expected="a folder this user can write to",
        action="Run it as the owner of the files, in the image build, before the file system becomes read-only.",
    )


def interrupted(root: Path) -> list[Finding]:
    """One finding if a killed apply or revert left this tree between two states."""
    journal = root / tree.JOURNAL_FOLDER / tree.JOURNAL
    if not journal.exists():
        return []
    return [
        Finding(
            reason="interrupted run",
            subject=str(journal),
            found="a journal",
            expected="none",
            action="Run specdecode-engine apply: it completes the interrupted run first.",
        )
    ]


def _other_journal(root: Path, release: str, manifest: Manifest) -> Finding:
    return Finding(
        reason="journal of another release",
        subject=str(root / tree.JOURNAL_FOLDER),
        found=release,
        expected=manifest.release,
        action=f"Finish with --release {release}, or install vLLM {manifest.release} into a clean folder.",
    )


def check_release(root: Path, asked: str | None) -> str:
    """The release under `root`.  Raises Refused if it is not the one asked for."""
    installed = tree.release_of(root)
    if asked is not None and asked != installed:
        raise Refused(
            [
                Finding(
                    reason="another release",
                    subject=str(root),
                    found=f"vLLM {installed}",
                    expected=f"vLLM {asked}",
                    action=f"Give --release {installed}, or install vLLM {asked}.",
                )
            ]
        )
    return installed


def as_json(outcome: Outcome) -> Mapping[str, list[str]]:
    """The outcome as one JSON object."""
    return {"changed": list(outcome.changed), "recovered": list(outcome.recovered)}
