"""Who is in the route, and with what weight.

A revision enters once one of its slots has settled, with its serving slots as weight, so that each pod gets the same
load. It stays while a slot of it serves, and leaves before its last slot drains. A gateway that is pointed at a
Service without ready endpoints answers 503 or sends to an unready pod, each in its own way; so nothing is pointed
there.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from specdecode_operator.api import names
from specdecode_operator.api.errors import FieldError
from specdecode_operator.api.status import Status
from specdecode_operator.api.traffic import Traffic
from specdecode_operator.plan.differs import differs
from specdecode_operator.plan.observe import Json, Observed, Revision, moment
from specdecode_operator.plan.rollout import RouteView
from specdecode_operator.plan.slots import Arm


def weights(
    arms: Mapping[Revision, Arm],
    *,
    leaving: frozenset[Revision],
    routed: frozenset[Revision],
    settle: timedelta,
    now: datetime,
) -> dict[str, int]:
    """Revision to weight; empty if nothing can be routed to.

    While nothing serves at all, whoever is in the route with a slot stays: there is nobody to send its share to, and
    it is back the moment a pod is.
    """
    candidates = [arm for arm in arms.values() if arm.replicas and arm.revision not in leaving]
    fit = [arm for arm in candidates if (arm.ready if arm.revision in routed else arm.settled(settle, now))]
    if not fit:
        return {arm.revision: arm.replicas for arm in candidates if arm.revision in routed}
    if len(fit) == 1:
        return {fit[0].revision: fit[0].replicas}
    return {arm.revision: arm.ready for arm in fit}


def live_weights(name: str, route: Json | None) -> dict[str, int]:
    """Weights as the live route has them."""
    prefix = f"{name}-"
    rules = ((route or {}).get("spec") or {}).get("rules") or ()
    return {
        ref["name"].removeprefix(prefix): ref.get("weight", 1)
        for rule in rules
        for ref in rule.get("backendRefs") or ()
    }


def view(name: str, namespace: str, traffic: Traffic, route: Json | None) -> RouteView:
    """The live route as the rollout sees it."""
    live = live_weights(name, route)
    gateway = gateway_of(namespace, traffic)
    return RouteView(
        revisions=frozenset(Revision(revision) for revision, weight in live.items() if weight),
        current=route is not None and accepted(route, traffic, namespace) is True,
        waits_for=f"gateway {gateway}",
    )


def entered(view: RouteView, before: Status) -> frozenset[Revision]:
    """Revisions of the live route that are there by the operator's doing, and may stay while a slot of them serves.

    One that status has without a weight was added by hand: it has to be fit to enter, as any other.
    """
    roles = (before.stable, before.candidate)
    return view.revisions - {Revision(role.revision) for role in roles if role is not None and not role.weight}


def gateway_of(namespace: str, traffic: Traffic) -> str:
    """The gateway as namespace/name."""
    return f"{traffic.gateway.namespace or namespace}/{traffic.gateway.name}"


def accepted(route: Json, traffic: Traffic, namespace: str) -> bool | None:
    """Whether the gateway takes the route at its current generation; None while it hasn't said."""
    answers = {
        each["type"]: each["status"]
        for each in _conditions(route, traffic, namespace)
        if each.get("observedGeneration") == route["metadata"].get("generation")
    }
    wanted = ["Accepted", "ResolvedRefs"] if live_weights("", route) else ["Accepted"]
    if any(answers.get(each) == "False" for each in wanted):
        return False
    return True if all(answers.get(each) == "True" for each in wanted) else None


def accepted_before(route: Json, traffic: Traffic, namespace: str) -> bool:
    """Whether this gateway took the route at some generation: it then goes on serving that one meanwhile."""
    said = _conditions(route, traffic, namespace)
    return any(each["type"] == "Accepted" and each["status"] == "True" for each in said)


def heard_of(route: Json, traffic: Traffic, namespace: str) -> bool:
    """Whether this gateway has ever said anything of the route: one that doesn't exist never does."""
    return bool(_conditions(route, traffic, namespace))


def same_road(wanted: Json, live: Json) -> bool:
    """Whether the live route leads from where the wanted one does, whatever shares it gives."""
    return not differs(_without_shares(wanted), _without_shares(live))


def _without_shares(route: Json) -> Json:
    rules = [{key: value for key, value in rule.items() if key != "backendRefs"} for rule in route["spec"]["rules"]]
    return {"spec": {**route["spec"], "rules": rules}}


def refusal(route: Json, traffic: Traffic, namespace: str) -> str:
    """What the gateway says against the route, and what of the object to look at."""
    refused = [
        each
        for each in _conditions(route, traffic, namespace)
        if each["type"] in ("Accepted", "ResolvedRefs") and each["status"] == "False"
    ]
    said = {f"{each['type']}=False ({each.get('reason', '')}): {each.get('message', '')}" for each in refused}
    faults = (_at_fault(str(each.get("reason")), traffic, namespace) for each in refused)
    return ". ".join([text.rstrip(". ") for text in sorted(said)] + sorted({str(fault) for fault in faults if fault}))


def _at_fault(reason: str, traffic: Traffic, namespace: str) -> FieldError | None:
    """The field that a gateway's reason is about."""
    gateway = gateway_of(namespace, traffic)
    section = traffic.gateway.section_name
    if reason == "NoMatchingParent" and section:
        return FieldError(
            path="spec.traffic.gateway.sectionName",
            found=section,
            allowed=f"the name of a listener of Gateway {gateway}",
            action="correct it, or remove it to use every listener that allows this namespace",
        )
    if reason == "NotAllowedByListeners":
        return FieldError(
            path="spec.traffic.gateway",
            found=f"{gateway}, none of whose listeners takes routes of namespace {namespace}",
            allowed="a gateway with a listener that does",
            action="choose another, or have the listener's allowedRoutes extended by whoever runs the gateway",
        )
    if reason == "NoMatchingListenerHostname":
        return FieldError(
            path="spec.traffic.hostnames",
            found=", ".join(traffic.hostnames) or "none",
            allowed=f"hostnames that a listener of Gateway {gateway} takes",
            action="choose such hostnames, or have a listener for these added by whoever runs the gateway",
        )
    return None


def _conditions(route: Json, traffic: Traffic, namespace: str) -> list[dict[str, Any]]:
    parents = (route.get("status") or {}).get("parents") or ()
    return [
        each
        for parent in parents
        if _is_ours(parent["parentRef"], traffic, namespace)
        for each in parent.get("conditions") or ()
    ]


def _is_ours(ref: Mapping[str, Any], traffic: Traffic, namespace: str) -> bool:
    return (ref.get("namespace", namespace), ref.get("name")) == (
        traffic.gateway.namespace or namespace,
        traffic.gateway.name,
    )


def rival(namespace: str, wanted: Traffic, observed: Observed) -> tuple[str, str] | None:
    """(hostname, object) that has claimed one of our hostnames with the same gateway and path before us.

    Between two routes that have it, the older one wins, as the Gateway API has it. Against a route that has it, an
    object whose own route doesn't have it yet comes too late.
    """
    live = observed.route
    for route in sorted(observed.foreign_routes, key=_age):
        for host in wanted.hostnames or ("*",):
            ours = live is not None and _claims(live, host, wanted, namespace) and _age(live) < _age(route)
            if _claims(route, host, wanted, namespace) and not ours:
                owner = (route["metadata"].get("labels") or {}).get(names.LABEL_NAME, route["metadata"]["name"])
                return host, f"{route['metadata']['namespace']}/{owner}"
    return None


def in_force(asked: Traffic, route: Json) -> Traffic:
    """`asked`, but with hostnames and path as the live route has them."""
    return asked.model_copy(
        update={
            "hostnames": tuple(route["spec"].get("hostnames") or ()),
            "path": next(iter(sorted(_paths(route))), asked.path),
        }
    )


def _age(route: Json) -> tuple[float, str, str]:
    meta = route["metadata"]
    created = moment(meta.get("creationTimestamp"))
    return (created.timestamp() if created else 0.0, meta["namespace"], meta["name"])


def _claims(route: Json, host: str, wanted: Traffic, namespace: str) -> bool:
    return (
        any(_same_listener(ref, route, wanted, namespace) for ref in route["spec"].get("parentRefs") or ())
        and wanted.path in _paths(route)
        and host in (route["spec"].get("hostnames") or ("*",))
    )


def _same_listener(ref: Mapping[str, Any], route: Json, wanted: Traffic, namespace: str) -> bool:
    """Whether a route's parent is one that we ask for: the gateway, and of its listeners at least one in common."""
    asked = wanted.gateway
    at = (ref.get("namespace", route["metadata"]["namespace"]), ref["name"])
    sections = {section for section in (ref.get("sectionName"), asked.section_name) if section}
    return at == (asked.namespace or namespace, asked.name) and len(sections) < 2


def _paths(route: Json) -> set[str]:
    rules = route["spec"].get("rules") or ()
    found = {match["path"]["value"] for rule in rules for match in rule.get("matches") or () if "path" in match}
    return found or {"/"}
