"""What can be set from outside, each by an environment variable `SPECDECODE_<FIELD>`; the chart's values become
these."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, Final

from specdecode_operator.api.errors import InvalidObject
from specdecode_operator.metrics.backends import Backend, read_backends

PREFIX: Final = "SPECDECODE_"
LEVELS: Final = ("debug", "info", "warning", "error")


class BadSetting(Exception):
    """An environment variable holds what it can't."""


@dataclass(frozen=True)
class Settings:
    """The operator's settings."""

    watch_namespaces: tuple[str, ...] = ()
    """Namespaces to serve, separated by commas. Default: all, which needs a ClusterRole instead of Roles."""

    log_level: str = "info"
    """debug, info, warning or error. At debug each watch restart and each conflict is told."""

    health_port: int = 8080
    """Port of /healthz on all addresses; 503 says that the process should be restarted."""

    metrics_port: int = 8081
    """Port of /metrics, the operator's own; engines are scraped by themselves."""

    allowed_host_paths: tuple[str, ...] = ()
    """Paths of the node that objects may mount, each with all below it, separated by commas. Default: none."""

    allowed_service_accounts: tuple[str, ...] = ()
    """Service accounts, besides default, that objects may run their engines as. Default: none."""

    metrics_backends: tuple[Backend, ...] = field(default=(), metadata={"read": read_backends})
    """Prometheus backends that objects may be measured with, as a JSON list. Default: none."""

    verified_requests: bool = False
    """true where the chart's policy lets nobody ask something of a canary in another's name."""

    workers: int = 8
    """Objects reconciled at the same time. More helps only while the API server answers slowly."""

    request_timeout: float = 30.0
    """Seconds until a request to the API server is given up and tried again with backoff."""

    watch_server_timeout: int = 270
    """Seconds after which a watch is asked for anew, give or take a tenth; nothing is listed again for that."""

    watch_inactivity: float = 90.0
    """Seconds of silence, bookmarks included, after which a watch counts as dead and is begun again."""

    watch_max_age: float = 300.0
    """Seconds of silence of a watch after which /healthz answers 503: beginning it again hasn't helped."""

    reconcile_deadline: float = 120.0
    """Seconds until a reconcile is cut off and put back with backoff; at twice that /healthz answers 503."""

    resync_interval: float = 300.0
    """Seconds between two lists of all objects: each is planned again, and kopf's watch is checked against them."""

    @classmethod
    def from_env(cls, env: Mapping[str, str] | None = None) -> Settings:
        """Settings from the environment; an empty variable counts as unset.

        Raises BadSetting with the variable's name, what it holds and what it may hold.
        """
        source = os.environ if env is None else env
        given: dict[str, Any] = {}
        for each in fields(cls):
            text = source.get(PREFIX + each.name.upper(), "").strip()
            if text:
                given[each.name] = _value(each, text)
        settings = cls(**given)
        if settings.log_level not in LEVELS:
            raise BadSetting(f"{PREFIX}LOG_LEVEL: found {settings.log_level!r}; allowed: {', '.join(LEVELS)}.")
        return settings


def _value(field: Field[Any], text: str) -> Any:
    """By the field's own reader if it has one, else by its type."""
    read = field.metadata.get("read")
    if read is None:
        return _read(field.name, text, type(field.default))
    try:
        return read(text, PREFIX + field.name.upper())
    except InvalidObject as error:
        raise BadSetting(str(error)) from None


def _read(name: str, text: str, kind: type) -> Any:
    if kind is tuple:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if kind is str:
        return text.lower()
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise BadSetting(f"{PREFIX}{name.upper()}: found {text!r}; allowed: true, false.")
        return text.lower() == "true"
    try:
        number = kind(text)
    except ValueError:
        number = 0
    if number <= 0:
        raise BadSetting(f"{PREFIX}{name.upper()}: found {text!r}; allowed: a number above 0 ({kind.__name__}).")
    return number
