"""Settings by environment: how the stand-in misbehaves, and how fast it is when it does not."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specdecode_engine import manifests
from specdecode_engine.telemetry.layout import SPAN_INDEX

PREFIX = "STANDIN_"


class SettingError(ValueError):
    """A variable that cannot be used; the message says which, what was found and what is allowed."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Each field is read from `STANDIN_` and its name in capitals."""

    start_delay_seconds: float = 0.0
    """Time before the port is opened, as a model that loads."""

    crash_message: str = ""
    """When set, printed to standard error after the start delay, then the process exits with `exit_code`."""

    exit_after_seconds: float = 0.0
    """When above 0, the process exits with `exit_code` this long after it began to serve, requests in flight or not."""

    exit_code: int = 1
    """Exit status of the two settings above; 0 to 255."""

    health_fails_after_seconds: float = -1.0
    """When 0 or more, /health answers 503 from this long after it began to serve; everything else goes on."""

    tokens_per_second: float = 20.0
    """Pace of each request, however many there are. With 20, `max_tokens` 600 is a stream of 30 s."""

    acceptance_length: float = 0.0
    """Mean tokens a step yields, 1 to K+1. 0: what the speculative configuration asks for, else 2.6 or K+1."""

    ballast_mib: int = 0
    """Memory that is taken and touched before the port is opened: above the container's limit it is OOM-killed."""

    release: str = "0.33.0"
    """The line whose series it attests, with all its files as the series leaves them."""

    edited_file: str = ""
    """When set, this file of the line counts as edited: the engine does not start."""

    attests: str = ""
    """When set, the manifest digest that it attests once its own check has passed, in place of the true one."""

    attestation: str = "served"
    """`served`, or `absent`: the paths of the attestation are not there, as in an image without our package."""

    span_factors: str = ""
    """`name=factor,...`: factors on the seconds of recorded spans, for example `propose_host=1.2`."""

    @property
    def factors(self) -> dict[str, float]:
        """`span_factors` by span."""
        pairs = [pair.partition("=") for pair in self.span_factors.split(",") if pair.strip()]
        return {name.strip(): float(factor) for name, _, factor in pairs}


def from_environment(environment: Mapping[str, str]) -> Settings:
    """Reads and checks the settings. Raises SettingError, also for a `STANDIN_` variable that is none of them."""
    fields = {PREFIX + field.name.upper(): field for field in dataclasses.fields(Settings)}
    given = {name: value for name, value in environment.items() if name.startswith(PREFIX)}
    unknown = sorted(set(given) - set(fields))
    if unknown:
        raise SettingError(f"{unknown[0]} is no setting of the stand-in; allowed: {', '.join(sorted(fields))}")
    values = {fields[name].name: _parsed(name, value, type(fields[name].default)) for name, value in given.items()}
    settings = Settings(**values)
    if not 0 <= settings.exit_code <= 255:
        raise SettingError(f"{PREFIX}EXIT_CODE is {settings.exit_code}; allowed: 0 to 255")
    if settings.tokens_per_second <= 0:
        raise SettingError(f"{PREFIX}TOKENS_PER_SECOND is {settings.tokens_per_second:g}; allowed: above 0")
    _check_of_ours(settings)
    return settings


def _check_of_ours(settings: Settings) -> None:
    """The settings whose allowed values the engine's package knows."""
    if settings.release not in (known := manifests.lines(manifests.series_folder())):
        raise SettingError(f"{PREFIX}RELEASE is {settings.release!r}; allowed: {', '.join(known)}")
    if settings.edited_file and settings.edited_file not in (files := manifests.load(settings.release).hashes):
        raise SettingError(f"{PREFIX}EDITED_FILE is {settings.edited_file!r}; allowed: {', '.join(files)}")
    if settings.attestation not in ("served", "absent"):
        raise SettingError(f"{PREFIX}ATTESTATION is {settings.attestation!r}; allowed: served, absent")
    try:
        factors = settings.factors
    except ValueError:
        raise SettingError(f"{PREFIX}SPAN_FACTORS is {settings.span_factors!r}; allowed: name=factor,...") from None
    if unknown := sorted(set(factors) - set(SPAN_INDEX)):
        raise SettingError(f"{PREFIX}SPAN_FACTORS names {unknown[0]!r}; allowed: {', '.join(SPAN_INDEX)}")


def _parsed(name: str, value: str, kind: type) -> Any:
    try:
        return kind(value)
    except ValueError:
        raise SettingError(f"{name} is {value!r}; allowed: {kind.__name__}") from None
