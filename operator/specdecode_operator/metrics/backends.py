"""Whom the operator may ask: the chart's `metricsBackends`, chosen by name in an object.

Credentials and certificates are files (the chart mounts them), read when they are needed, so that what was renewed is
taken up. An error names the file and never shows what is in it, nor a value that could be a credential by mistake.
"""

from __future__ import annotations

import base64
import json
import re
import ssl
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from yarl import URL

from specdecode_operator.api import names
from specdecode_operator.api.errors import FieldError, InvalidObject
from specdecode_operator.api.fields import DNS_LABEL
from specdecode_operator.metrics.errors import BackendDown

MAX_BACKENDS: Final = 32
MAX_CREDENTIAL: Final = 64 * 1024
SHOWN: Final = frozenset({"name", "namespaces", "tenantHeader"})
"""Fields whose values may be in a message."""


def _base(text: str) -> str:
    """A base URL."""
    url = URL(text)
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError("an address beginning with http:// or https://")
    if url.raw_user is not None or url.raw_password is not None:
        raise ValueError("an address without user and password; those belong in a Secret")
    if url.raw_query_string or url.raw_fragment:
        raise ValueError("an address without query and fragment; labels and tenant have fields of their own")
    return text.rstrip("/")


def _one_line(text: str) -> str:
    if not text.isascii() or not text.isprintable():
        raise ValueError("printable ASCII text of one line")
    return text


File = Annotated[Path, Field(description="Absolute path."), AfterValidator(lambda path: _absolute(path))]
LabelName = Annotated[str, Field(min_length=1, max_length=63, pattern=DNS_LABEL)]
"""As the resource's, whose spelling the API server checks; nobody else checks this one."""
HeaderName = Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z][A-Za-z0-9-]*$")]
LabelText = Annotated[str, Field(min_length=1, max_length=253), AfterValidator(_one_line)]
PromLabel = Annotated[str, Field(max_length=63, pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$")]


def _absolute(path: Path) -> Path:
    if not path.is_absolute():
        raise ValueError("an absolute path")
    return path


class Backend(BaseModel):
    """One Prometheus, or what answers like one."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, hide_input_in_errors=True
    )

    name: LabelName
    url: Annotated[str, Field(max_length=1024), AfterValidator(_base)]
    """What comes before /api/v1/query."""
    ca_file: File | None = None
    """PEM certificates that sign the backend's. Default: the system's."""
    bearer_file: File | None = None
    username_file: File | None = None
    password_file: File | None = None
    tenant: LabelText | None = None
    """Whose data it is, for backends that keep several tenants apart."""
    tenant_header: HeaderName = "X-Scope-OrgID"
    """The header that says so: this is Mimir's; THANOS-TENANT is Thanos'."""
    labels: dict[PromLabel, LabelText] = Field(default={}, max_length=16)
    """Labels that tell this cluster's series from others' in the same backend; they are in each query."""
    namespaces: tuple[LabelName, ...] = Field(default=(), max_length=256)
    """Namespaces whose objects may choose it. Empty: all."""

    @model_validator(mode="after")
    def _one_credential(self) -> Self:
        if (self.username_file is None) != (self.password_file is None):
            raise ValueError("usernameFile and passwordFile, both or neither")
        if self.bearer_file and self.username_file:
            raise ValueError("one of bearerFile and usernameFile")
        if taken := sorted(set(self.labels) & {*names.TARGET_LABELS, "__name__"}):
            raise ValueError(f"labels without {', '.join(taken)}, which each query has already")
        if self.tenant_header.lower() in ("authorization", "host", "accept-encoding", "cookie"):
            raise ValueError("a tenantHeader that has no other meaning")
        return self


_BACKENDS: Final = TypeAdapter(Annotated[tuple[Backend, ...], Field(max_length=MAX_BACKENDS)])


def read_backends(text: str | bytes, path: str = "metricsBackends") -> tuple[Backend, ...]:
    """Backends from JSON, a list of objects.

    Raises:
        InvalidObject: with each field at fault, as `path`[0].url.
    """
    try:
        found = _BACKENDS.validate_python(json.loads(text), by_alias=True, by_name=False)
    except ValidationError as error:
        raise InvalidObject(_faults(error, path)) from None
    except (ValueError, RecursionError):
        raise InvalidObject([_fault(path, "text that is no JSON", "a JSON list of backends")]) from None
    if twice := sorted({one.name for one in found if sum(other.name == one.name for other in found) > 1}):
        raise InvalidObject([_fault(path, f"several named {', '.join(twice)}", "each name once")])
    return found


def _faults(error: ValidationError, path: str) -> Iterator[FieldError]:
    for fault in error.errors(include_url=False, include_context=False):
        parts = [part for part in fault["loc"] if part != "[key]"]
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
        shown = not SHOWN.isdisjoint(parts)
        yield _fault(path + place, _described(fault["input"], shown=shown), fault["msg"].removeprefix("Value error, "))


def _described(value: Any, *, shown: bool) -> str:
    if shown:
        return repr(value)[:80]
    return f"a text of {len(value)} characters" if isinstance(value, str) else f"a {type(value).__name__}"


def _fault(path: str, found: str, allowed: str) -> FieldError:
    return FieldError(path, found, allowed, "correct the chart's metricsBackends, or the file that was given")


def choose(backends: Iterable[Backend], name: str, *, namespace: str, path: str) -> Backend:
    """The backend of that name, for an object of that namespace.

    Raises:
        InvalidObject: there is none, or the namespace may not use it; `path` is the field that names it.
    """
    open_to = [one for one in backends if not one.namespaces or namespace in one.namespaces]
    found = next((one for one in open_to if one.name == name), None)
    if found is None:
        allowed = ", ".join(sorted(one.name for one in open_to)) or f"none: no backend is open to namespace {namespace}"
        raise InvalidObject([FieldError(path, repr(name), allowed, "name one of these, or add it to metricsBackends")])
    return found


def check(backends: Iterable[Backend]) -> None:
    """See that each backend's files can be read, before anybody waits for data.

    Raises:
        BackendDown: one can't.
    """
    for backend in backends:
        headers(backend)
        trust(backend)


def headers(backend: Backend) -> dict[str, str]:
    """Headers that say who asks.

    Raises:
        BackendDown: a file can't be read, or holds no credential.
    """
    found = {} if backend.tenant is None else {backend.tenant_header: backend.tenant}
    if backend.bearer_file is not None:
        found["Authorization"] = f"Bearer {_credential(backend, backend.bearer_file)}"
    elif backend.username_file is not None and backend.password_file is not None:
        user = _credential(backend, backend.username_file)
        if ":" in user:
            raise BackendDown(f"backend {backend.name}: {backend.username_file} holds a colon, which ends a user name")
        both = f"{user}:{_credential(backend, backend.password_file)}"
        found["Authorization"] = f"Basic {base64.b64encode(both.encode()).decode()}"
    return found


def _credential(backend: Backend, path: Path) -> str:
    """What a file holds, without the line's end."""
    why = ""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_CREDENTIAL + 1).decode().rstrip("\r\n")
    except OSError as error:
        why = error.strerror or "it can't be read"
    except UnicodeDecodeError:
        why = "it isn't text"
    else:
        if not text or len(text) > MAX_CREDENTIAL or not re.fullmatch(r"[^\x00-\x1f\x7f]+", text):
            why = "it isn't one line of text"
    if why:
        raise BackendDown(f"backend {backend.name}: credential {path}: {why}")
    return text


def trust(backend: Backend) -> ssl.SSLContext:
    """Whose certificates are believed.

    Raises:
        BackendDown: the file can't be read, or holds no certificate.
    """
    why = ""
    try:
        return ssl.create_default_context(cafile=backend.ca_file)
    except ssl.SSLError:
        why = "it holds no PEM certificate"
    except OSError as error:
        why = error.strerror or "it can't be read"
    raise BackendDown(f"backend {backend.name}: caFile {backend.ca_file}: {why}")
