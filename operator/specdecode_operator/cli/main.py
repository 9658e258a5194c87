"""The command line: one subcommand a file."""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

from specdecode_operator.api.errors import InvalidObject
from specdecode_operator.cli import attribute, exits, explain, judge, plan, report, request, samples, status


class _Parser(argparse.ArgumentParser):
    """argparse's own exit code for usage is 2, which a script could take for anything."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(exits.USAGE, f"{self.prog}: {message}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand; its exit code."""
    parser = _Parser(prog="kubectl-specdecode", description="Canaries of SpecDecodeDeployments, seen and judged.")
    commands = parser.add_subparsers(required=True, metavar="command")
    judge.add_to(commands)
    samples.add_to(commands)
    status.add_to(commands)
    explain.add_to(commands)
    plan.add_to(commands)
    report.add_to(commands)
    request.add_to(commands)
    attribute.add_to(commands)
    arguments = parser.parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except InvalidObject as error:
        sys.stderr.writelines(f"{parser.prog}: {fault}\n" for fault in error.errors)
        return exits.USAGE
    except OSError as error:
        sys.stderr.write(f"{parser.prog}: {error.filename or 'output'}: {error.strerror}\n")
        return exits.USAGE
    except Exception:
        traceback.print_exc()
        return exits.INTERNAL


if __name__ == "__main__":
    sys.exit(main())
