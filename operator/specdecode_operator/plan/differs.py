"""Whether a live child is other than it should be: then, and only then, is it written.

What is desired must be contained in what is live, whatever the API server has filled in beside it: quantities by
value, lists by their keys. And live must have nothing beyond it where an addition changes what runs or where requests
go: env, args, containers, volumes, selectors, backends and the like.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final

Json = dict[str, Any]

LIST_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "volumes": ("name",),
    "env": ("name",),
    "imagePullSecrets": ("name",),
    "volumeMounts": ("mountPath",),
    "ports": ("port", "containerPort", "protocol"),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "resourceClaims": ("name",),
    "ownerReferences": ("uid",),
    "backendRefs": ("name",),
}
"""Lists that are maps to the API server too: what tells their items apart. Others are compared by position."""

SHARED_LISTS: Final = frozenset({"ownerReferences", "finalizers"})
"""Lists that others may add to."""

NOTHING_BEYOND: Final = frozenset(
    {
        *(
            "env",
            "envFrom",
            "args",
            "command",
            "containers",
            "initContainers",
            "volumes",
            "volumeMounts",
            "volumeDevices",
        ),
        *("lifecycle", "nodeSelector", "tolerations", "affinity", "hostNetwork", "hostPID", "hostIPC", "hostAliases"),
        *("runtimeClassName", "topologySpreadConstraints", "resourceClaims", "priorityClassName", "nodeName"),
        *("selector", "matchLabels", "matchExpressions", "externalIPs", "backendRefs", "filters", "hostnames"),
        *("startupProbe", "livenessProbe", "readinessProbe", "workingDir", "imagePullSecrets", "activeDeadlineSeconds"),
        *("shareProcessNamespace", "setHostnameAsFQDN", "hostUsers", "privileged", "minReadySeconds", "timeouts"),
        *("sampleLimit", "targetLimit", "labelLimit", "labelNameLengthLimit", "labelValueLengthLimit", "jobLabel"),
        *("bodySizeLimit", "keepDroppedTargets", "metricRelabelings", "scrapeTimeout", "honorLabels"),
    }
)
"""Keys that may not be live without being desired; none of them is filled in by the API server."""

EXACT_MAPS: Final = frozenset({"selector", "matchLabels", "nodeSelector", "limits", "timeouts"})
"""Maps that may hold no key beyond those desired."""

SYSTEM_METADATA: Final = frozenset({"template", "leaderTemplate", "workerTemplate"})
"""Below these, labels and annotations are ours alone: they end up on pods."""

QUANTITIES: Final = frozenset({"limits", "requests", "sizeLimit"})

SUFFIXES: Final[Mapping[str, Decimal]] = {
    **{suffix: Decimal(1024) ** power for power, suffix in enumerate(["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"], start=1)},
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate(["k", "M", "G", "T", "P", "E"], start=1)},
    **{"m": Decimal("1e-3"), "u": Decimal("1e-6"), "n": Decimal("1e-9")},
}


def differs(desired: Json, live: Json) -> bool:
    """Whether `live` must be written to be as `desired`."""
    return first_difference(desired, live) is not None


def first_difference(desired: Json, live: Json) -> str | None:
    """Path of the first difference, or None."""
    return _compare(desired, live, ())


def repaired(desired: Json, live: Json) -> Json:
    """`live` as it should be: what is desired set, what is beyond it gone, what the API server filled in kept."""
    return _merged(desired, live, ())  # type: ignore[no-any-return]


def has_beyond(desired: Json, live: Json) -> bool:
    """Whether something was added that server-side apply alone would leave: it removes only what it owned."""
    return _beyond(desired, live, ())


def merge_patch(old: Any, new: Any) -> Json:
    """The JSON merge patch that makes `new` of `old`."""
    patch: Json = {key: None for key in old if key not in new}
    for key, value in new.items():
        if key not in old:
            patch[key] = value
        elif isinstance(value, dict) and isinstance(old[key], dict):
            inner = merge_patch(old[key], value)
            if inner:
                patch[key] = inner
        elif value != old[key]:
            patch[key] = value
    return patch


def quantity(value: Any) -> Decimal | None:
    """A Kubernetes quantity as a number; None if it isn't one."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return Decimal(str(value))
    if not isinstance(value, str):
        return None
    suffix = next((each for each in SUFFIXES if value.endswith(each)), "")
    try:
        return Decimal(value.removesuffix(suffix)) * SUFFIXES.get(suffix, Decimal(1))
    except InvalidOperation:
        return None


def _compare(desired: Any, live: Any, path: tuple[str, ...]) -> str | None:
    if isinstance(desired, dict):
        return _compare_maps(desired, live, path)
    if isinstance(desired, list | tuple):
        return _compare_lists(list(desired), live, path)
    if desired == live or (not desired and live is None):
        return None
    if any(part in QUANTITIES for part in path[-2:]):
        wanted = quantity(desired)
        if wanted is not None and wanted == quantity(live):
            return None
    return _text(path)


def _compare_maps(desired: Json, live: Any, path: tuple[str, ...]) -> str | None:
    if not isinstance(live, dict):
        return None if not desired and live is None else _text(path)
    for key, value in desired.items():
        found = _compare(value, live.get(key), (*path, key))
        if found:
            return found
    extra = [key for key in live if key not in desired and _forbidden(key, live[key], path)]
    return _text((*path, extra[0])) if extra else None


def _compare_lists(desired: list[Any], live: Any, path: tuple[str, ...]) -> str | None:
    if not isinstance(live, list):
        return None if not desired and live is None else _text(path)
    keys = LIST_KEYS.get(path[-1]) if path else None
    if keys is None:
        if len(desired) != len(live):
            return _text(path)
        pairs = [(str(place), item, live[place]) for place, item in enumerate(desired)]
    else:
        found_by = {_identity(item, keys): item for item in live}
        pairs = [(_identity(item, keys), item, found_by.get(_identity(item, keys))) for item in desired]
        if path[-1] not in SHARED_LISTS and len(live) != len(desired):
            beyond = sorted(set(found_by) - {place for place, _, _ in pairs})
            return _text((*path, beyond[0] if beyond else "*"))
    for place, item, other in pairs:
        found = _text((*path, place)) if other is None else _compare(item, other, (*path, place))
        if found:
            return found
    return None


def _beyond(desired: Any, live: Any, path: tuple[str, ...]) -> bool:
    if isinstance(desired, dict) and isinstance(live, dict):
        if any(key not in desired and _forbidden(key, live[key], path) for key in live):
            return True
        return any(_beyond(value, live.get(key), (*path, key)) for key, value in desired.items())
    keys = LIST_KEYS.get(path[-1]) if path else None
    if isinstance(desired, list) and isinstance(live, list) and keys is not None and path[-1] not in SHARED_LISTS:
        wanted = {_identity(item, keys): item for item in desired}
        return any(
            _identity(item, keys) not in wanted
            or _beyond(wanted[_identity(item, keys)], item, (*path, _identity(item, keys)))
            for item in live
        )
    return False


def _merged(desired: Any, live: Any, path: tuple[str, ...]) -> Any:
    if isinstance(desired, dict) and isinstance(live, dict):
        kept = {k: v for k, v in live.items() if k not in desired and not _forbidden(k, v, path)}
        return {**kept, **{key: _merged(value, live.get(key), (*path, key)) for key, value in desired.items()}}
    if isinstance(desired, list) and isinstance(live, list):
        keys = LIST_KEYS.get(path[-1]) if path else None
        if keys is None:
            return [
                _merged(item, live[i] if i < len(live) else None, (*path, str(i))) for i, item in enumerate(desired)
            ]
        found_by = {_identity(item, keys): item for item in live}
        ours = [_merged(item, found_by.pop(_identity(item, keys), None), (*path, "")) for item in desired]
        return ours + (list(found_by.values()) if path[-1] in SHARED_LISTS else [])
    return copy.deepcopy(desired)


def _forbidden(key: str, value: Any, path: tuple[str, ...]) -> bool:
    """Whether a key that isn't desired may not be live."""
    if value in (None, "", False) or value == {} or value == []:
        return False
    if path and path[-1] in EXACT_MAPS:
        return True
    on_pods = len(path) >= 2 and path[-1] in ("labels", "annotations") and _in_template(path)
    return on_pods or (key in NOTHING_BEYOND and bool(path)) or (key == "annotations" and _in_template(path))


def _in_template(path: tuple[str, ...]) -> bool:
    return any(part in SYSTEM_METADATA for part in path)


def _identity(item: Any, keys: tuple[str, ...]) -> str:
    return "/".join(str(item.get(key, "")) for key in keys) if isinstance(item, dict) else str(item)


def _text(path: tuple[str, ...]) -> str:
    return ".".join(path) or "."
