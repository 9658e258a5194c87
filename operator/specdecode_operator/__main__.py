"""`python3 -m specdecode_operator run`: one process that serves until it is told to stop."""

from __future__ import annotations

import os
import signal
import sys


def leave(*_: object) -> None:
    """End at once: nothing has been begun yet."""
    os._exit(0)


if __name__ == "__main__":
    # Before the imports that take a second: a signal without a handler isn't delivered to process 1 of a container.
    for early in (signal.SIGTERM, signal.SIGINT):
        signal.signal(early, leave)

import argparse  # noqa: E402
import asyncio  # noqa: E402
import logging  # noqa: E402
from collections.abc import Callable, Sequence  # noqa: E402

from specdecode_operator.metrics.backends import check  # noqa: E402
from specdecode_operator.metrics.errors import BackendDown  # noqa: E402
from specdecode_operator.process import Operator  # noqa: E402
from specdecode_operator.settings import BadSetting, Settings  # noqa: E402

USAGE = 64


def main(argv: Sequence[str] | None = None, *, after_action: Callable[[str], None] | None = None) -> int:
    """Run a command; its exit status."""
    parser = argparse.ArgumentParser(prog="specdecode-operator", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="command")
    commands.add_parser("run", help="serve SpecDecodeDeployments until SIGTERM; settings are SPECDECODE_* variables")
    parser.parse_args(argv)
    try:
        settings = Settings.from_env()
        check(settings.metrics_backends)
    except (BadSetting, BackendDown) as error:
        print(f"specdecode-operator: {error}", file=sys.stderr)
        return USAGE
    logging.basicConfig(
        level=settings.log_level.upper(),
        format="%(asctime)s %(levelname)-7s %(name)s: %(message)s",
        stream=sys.stdout,
    )
    # kopf warns that it gets no signals: they are ours.
    logging.getLogger("kopf").setLevel(logging.INFO if settings.log_level == "debug" else logging.ERROR)
    return asyncio.run(_serve(Operator(settings, after_action)))


async def _serve(operator: Operator) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return await operator.run(stop)


if __name__ == "__main__":
    sys.exit(main())
