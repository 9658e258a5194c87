"""The command line of the local cluster. Each command has a module of its own, loaded only when it is asked for."""

from __future__ import annotations

import argparse
import importlib
import sys
from dataclasses import dataclass

from specdecode_local.errors import LocalError


@dataclass(frozen=True)
class Command:
    """A command: its name, the module that has `add_arguments(parser)` and `run(args) -> int`, and its help line."""

    name: str
    module: str
    help: str


COMMANDS = (
    Command("up", "specdecode_local.commands.up", "start the cluster, or repair it; changes nothing when all is well"),
    Command("down", "specdecode_local.commands.down", "stop the cluster and remove every trace but the cache"),
    Command("status", "specdecode_local.commands.status", "show every component, and what the cluster says of itself"),
    Command("trays", "specdecode_local.commands.trays", "make N simulated GB200 trays (kwok nodes)"),
    Command("registry", "specdecode_local.commands.registry", "start or stop the image registry alone"),
    Command("build", "specdecode_local.commands.build", "build the Go programs that the cluster needs"),
    Command("clean", "specdecode_local.commands.clean", "remove caches, images and the registry's contents"),
    Command("images", "specdecode_local.images", "build and push the images whose inputs changed"),
    Command("image-ref", "specdecode_local.commands.image_ref", "print an image's reference by digest"),
    Command("demo", "specdecode_local.demo", "the main job, from nothing to a rolled change under load"),
    Command("load", "specdecode_local.load", "send bounded load through the gateway"),
    Command("dev", "specdecode_local.dev", "run the operator from the working tree on the local cluster"),
)


def parser_for(arguments: list[str]) -> tuple[argparse.ArgumentParser, dict[str, str]]:
    """The parser; only the module of the command that is asked for is imported, to keep `--help` and errors fast."""
    parser = argparse.ArgumentParser(
        prog="python -m specdecode_local", description="A real Kubernetes on this machine."
    )
    choices = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    asked = next((word for word in arguments if not word.startswith("-")), None)
    for command in COMMANDS:
        sub = choices.add_parser(command.name, help=command.help, description=command.help)
        if command.name == asked:
            importlib.import_module(command.module).add_arguments(sub)
    return parser, {command.name: command.module for command in COMMANDS}


def main(arguments: list[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    try:
        parser, modules = parser_for(words)
        args = parser.parse_args(words)
        return int(importlib.import_module(modules[args.command]).run(args))
    except LocalError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; run the same command again to go on from here", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
