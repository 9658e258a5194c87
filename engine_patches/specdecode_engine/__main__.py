"""`specdecode-engine list | apply | revert | verify`: the series and an installed tree.

`specdecode-engine serve ...` checks the tree and becomes `vllm serve ...`; `specdecode-engine record` writes samples of
a running engine's steps to a file.

Exit codes: 0 done (verify: all as it should be), 1 refused or not verified, 64 usage, 78 the engine may not start.
"""

import argparse
import contextlib
import importlib.util
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from specdecode_engine import installed, manifests, overlay, start, tree
from specdecode_engine.errors import Finding, Refused
from specdecode_engine.manifests import Manifest

USAGE = 64


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.  Returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["serve"]:  # what follows is vLLM's
        start.serve(words[1:])
    args = _parser().parse_args(words)
    try:
        if args.command == "record":
            return _record(args)
        root = args.root or _installed_root()
        manifest = manifests.load(overlay.check_release(root, args.release), args.series)
        return int(_COMMANDS[args.command](args, root, manifest))
    except Refused as refused:
        _say(args, {"ok": False, "findings": [finding.row() for finding in refused.findings]}, _lines(refused.findings))
        return 1


def _list(args: argparse.Namespace, root: Path, manifest: Manifest) -> int:
    rows = tree.states(manifest, tree.hashes(root, manifest))
    table = [("optimization", "state", "switchable", "files")]
    table += [(row.name, row.state, "yes" if row.switchable else "no", " ".join(row.files)) for row in rows]
    widths = [max(len(line[column]) for line in table) for column in range(3)]
    text = "\n".join(
        "  ".join([*(cell.ljust(w) for cell, w in zip(line[:3], widths, strict=True)), line[3]]) for line in table
    )
    _say(args, {"release": manifest.release, "digest": manifest.digest, "rows": [row.row() for row in rows]}, text)
    return 0


def _apply(args: argparse.Namespace, root: Path, manifest: Manifest) -> int:
    return _report(args, overlay.apply(root, manifest, args.names))


def _revert(args: argparse.Namespace, root: Path, manifest: Manifest) -> int:
    return _report(args, overlay.revert(root, manifest, args.names))


def _verify(args: argparse.Namespace, root: Path, manifest: Manifest) -> int:
    findings = [*overlay.verify(root, manifest), *installed.edited()]
    if findings:
        raise Refused(findings)
    text = f"vLLM {manifest.release} under {root} has the whole series, digest {manifest.digest}"
    _say(args, {"ok": True, "release": manifest.release, "digest": manifest.digest, "findings": []}, text)
    return 0


def _record(args: argparse.Namespace) -> int:
    from specdecode_engine.telemetry import recording  # prometheus_client: no other command needs it

    windows = -1
    with contextlib.suppress(KeyboardInterrupt), args.out.open("w") as out:
        for line in recording.record(recording.scraped(args.url), seconds=args.seconds, engine=args.engine):
            out.write(json.dumps(line, separators=(",", ":")) + "\n")
            windows += 1
    print(f"{windows} windows with steps in {args.out}")
    return 0


_COMMANDS = {"list": _list, "apply": _apply, "revert": _revert, "verify": _verify}


def _report(args: argparse.Namespace, outcome: overlay.Outcome) -> int:
    text = [f"recovered {path}" for path in outcome.recovered] + [f"changed {path}" for path in outcome.changed]
    _say(args, {"ok": True, **overlay.as_json(outcome)}, "\n".join(text))
    return 0


def _lines(findings: Sequence[Finding]) -> str:
    return "\n".join(f"specdecode-engine: {finding}" for finding in findings)


def _say(args: argparse.Namespace, data: Mapping[str, object], text: str) -> None:
    if args.json:
        print(json.dumps(data, indent=1))
    else:
        print(text, file=sys.stdout if data.get("ok", True) else sys.stderr)


def _installed_root() -> Path:
    """The folder that holds this interpreter's vLLM, found without importing it."""
    spec = importlib.util.find_spec("vllm")
    if spec is None or spec.origin is None:
        raise Refused(
            [
                Finding(
                    reason="no vLLM",
                    subject=sys.prefix,
                    found="no module vllm",
                    expected="an installed vLLM",
                    action="Run it with the engine's Python, or give its site-packages folder with --root.",
                )
            ]
        )
    return Path(spec.origin).resolve().parent.parent


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(USAGE, f"{self.prog}: {message}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="specdecode-engine", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, what in {
        "list": "the state of each optimization, from the hashes of the installed files",
        "apply": "put the series in",
        "revert": "take the series out",
        "verify": "check that the tree is the release plus the whole series",
    }.items():
        command = commands.add_parser(name, help=what, description=what)
        command.add_argument("--root", type=Path, help="site-packages folder (default: this interpreter's vLLM)")
        command.add_argument("--release", help="refuse unless this release is installed, for example 0.33.0")
        command.add_argument("--series", type=Path, help="folder of the series (default: this package's)")
        command.add_argument("--json", action="store_true", help="print one JSON object")
        if name in ("apply", "revert"):
            command.add_argument("names", nargs="*", help="optimizations (default: all that come with a patch)")
    what = "write step samples of a running engine to a file, as JSON lines (see specdecode_engine.telemetry.recording)"
    command = commands.add_parser("record", help=what, description=what)
    command.add_argument("--url", required=True, help="of the engine, for example http://127.0.0.1:8000")
    command.add_argument("--seconds", type=float, default=60.0, help="how long (default 60; Ctrl-C ends it earlier)")
    command.add_argument("--engine", default="0", help="index of the engine, with data parallelism (default 0)")
    command.add_argument("--out", type=Path, required=True, help="the file")
    command.set_defaults(json=False)
    what = "check the tree, then become `vllm serve` with these arguments"
    commands.add_parser("serve", help=what, description=what)
    return parser


if __name__ == "__main__":
    sys.exit(main())
