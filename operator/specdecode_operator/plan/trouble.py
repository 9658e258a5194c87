"""Why a pod isn't ready, in its own words.

Only words that stay the same while the cause does: a back-off that counts up would write status at each step.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from specdecode_operator.api import names
from specdecode_operator.plan.observe import Json, Pod, condition

PULL_REASONS: Final = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ImageInspectError", "RegistryUnavailable"}
)
CONFIG_REASONS: Final = frozenset({"CreateContainerConfigError", "CreateContainerError"})
WORDS: Final = 600
"""Characters of a container's last words that a condition repeats."""

ABSENT_CLAIM: Final = re.compile(r'persistentvolumeclaim "([^"]*)" not found')
COLOURS: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
"""Control sequences of a terminal (ECMA-48 5.4), which engines log for colours."""


@dataclass(frozen=True)
class Trouble:
    """What keeps a pod, or a revision's pods, from running. `reason` is one of the Progressing reasons."""

    reason: str
    message: str


def of_pod(pod: Pod, warning: str | None) -> Trouble | None:
    """What keeps this pod from being ready; None if nothing is known to be wrong.

    `warning` is the message of its newest warning event: the only place that names an absent Secret to mount.
    """
    if pod.ready or pod.terminating:
        return None
    scheduled = condition(pod.raw, "PodScheduled") or {}
    if scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable":
        return _unplaced(pod.name, scheduled.get("message", ""))
    status = pod.raw.get("status") or {}
    for state in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        trouble = _of_container(pod.name, state)
        if trouble:
            return trouble
    if warning and not any(s.get("ready") for s in status.get("containerStatuses") or ()):
        return Trouble(names.REASON_CONFIG_MISSING, f"pod {pod.name} can't start: {_clip(warning)}")
    return None


def _unplaced(pod: str, words: str) -> Trouble:
    """The scheduler blames its nodes for a claim that nobody made, too."""
    if claim := ABSENT_CLAIM.search(words):
        return Trouble(
            names.REASON_CONFIG_MISSING,
            f"pod {pod} can't start: its namespace has no PersistentVolumeClaim {_clip(claim[1])!r}",
        )
    return Trouble(names.REASON_UNSCHEDULABLE, f"pod {pod} fits no node: {_clip(words)}")


def _of_container(pod: str, state: Json) -> Trouble | None:
    waiting = (state.get("state") or {}).get("waiting") or {}
    reason = waiting.get("reason", "")
    message = waiting.get("message", "")
    if reason in PULL_REASONS:
        return Trouble(
            names.REASON_IMAGE_PULL, f"pod {pod}: image {state.get('image', '')} can't be pulled: {_pull(message)}"
        )
    if reason in CONFIG_REASONS:
        return Trouble(names.REASON_CONFIG_MISSING, f"pod {pod}: {_clip(message)}")
    last = (state.get("lastState") or {}).get("terminated") or (state.get("state") or {}).get("terminated")
    if last and (reason == "CrashLoopBackOff" or state.get("restartCount", 0) > 0 or "terminated" in state["state"]):
        return Trouble(names.REASON_ENGINE_CRASHED, f"pod {pod}: container {state.get('name')} {_death(last)}")
    return None


def _death(terminated: Json) -> str:
    how = f"ended with exit code {terminated.get('exitCode')}"
    if terminated.get("reason") not in (None, "", "Error", "Completed"):
        how += f" ({terminated['reason']})"
    words = _tail(terminated.get("message") or "")
    return f"{how}; its last words: {words}" if words else f"{how} and left no message"


def _pull(message: str) -> str:
    """The registry's answer without the back-off around it, which alternates."""
    text = re.sub(r'^Back-off pulling image "[^"]*":?\s*', "", message)
    text = re.sub(r"^(ErrImagePull|RegistryUnavailable):\s*", "", text)
    return _clip(text) or "the registry's answer isn't known yet"


def of_workload(workload: Json) -> Trouble | None:
    """Why the ReplicaSet can't make its pods: quota, pod security, a missing service account."""
    failure = condition(workload, "ReplicaFailure")
    if failure and failure.get("status") == "True":
        words = re.sub(r'pods "[^"]*" is forbidden', "pods are forbidden", failure.get("message", ""))
        return Trouble(names.REASON_PODS_REFUSED, f"the API server refuses its pods: {_clip(words)}")
    return None


def _plain(text: str) -> str:
    """One line without colours. What else would move a terminal's cursor, or hide what follows, shows as its escape."""
    line = " ".join(COLOURS.sub("", text).split())
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in line)


def _clip(text: str) -> str:
    text = _plain(text)
    return text if len(text) <= WORDS else text[: WORDS - 1] + "…"


def _tail(text: str) -> str:
    """The end of it: a traceback's last lines say what happened."""
    text = _plain(text)
    return text if len(text) <= WORDS else "…" + text[-(WORDS - 1) :]
