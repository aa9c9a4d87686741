"""Fit the containers that we add into the LimitRanges of their namespace, so that the API server accepts the pod.

The API server fills in what a container leaves out and refuses what is out of bounds (k8s.io/kubernetes, plugin/pkg/
admission/limitranger), also for containers that a webhook has added. Invariant: our containers request amounts within
the bounds, and no less than they need if the bounds allow that much.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fluence_extender.model.quantity import InvalidQuantity, nanos


@dataclass(frozen=True, slots=True)
class ContainerBound:
    """The amounts of one resource that a container may have, as quantities. ``maximum`` None: any amount.

    ``limited``: each container has a limit or is given one. ``ratio``: the limit may be this many times the request.
    """

    minimum: str = "0"
    maximum: str | None = None
    limited: bool = False
    ratio: str | None = None


Bounds = Mapping[str, ContainerBound]
"""By the name of the resource."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """The ``resources`` of a container. ``short`` has the amounts that are smaller than requested, by resource."""

    resources: dict[str, Any]
    short: Mapping[str, str]


def read_bounds(items: Iterable[dict[str, Any]]) -> Bounds:
    """Return the bounds that these LimitRanges set together. A value that isn't a quantity sets none."""
    found: dict[str, ContainerBound] = {}
    for item in items:
        for limit in (item.get("spec") or {}).get("limits") or ():
            if limit.get("type") == "Container":
                _narrow(found, limit)
    return found


def _narrow(found: dict[str, ContainerBound], limit: dict[str, Any]) -> None:
    minimum, maximum, ratio = (limit.get(key) or {} for key in ("min", "max", "maxLimitRequestRatio"))
    limited = {*maximum, *ratio, *(limit.get("default") or {})}
    for name in {*minimum, *limited}:
        known = found.get(name, ContainerBound())
        try:
            found[name] = ContainerBound(
                minimum=max(known.minimum, str(minimum.get(name, "0")), key=nanos),
                maximum=min(
                    (one for one in (known.maximum, maximum.get(name)) if one), key=nanos, default=None
                ),
                limited=known.limited or name in limited,
                ratio=min((one for one in (known.ratio, ratio.get(name)) if one), key=nanos, default=None),
            )
        except InvalidQuantity:
            continue


def fit(
    requests: Mapping[str, str], limits: Mapping[str, str], limited: Collection[str], bounds: Bounds
) -> Fitted:
    """Return ``requests``, with the ``limits`` (not below them) of the resources in ``limited``, within ``bounds``.

    A limit that we choose is requested in full, so that a pod of the class Guaranteed stays one.
    """
    requested, capped, short = dict(requests), dict[str, str](), dict[str, str]()
    for name, wanted in requests.items():
        bound = bounds.get(name)
        if bound is None:
            if name in limited:
                requested[name] = capped[name] = limits[name]
            continue
        requested[name] = _within(wanted, bound)
        if name in limited or bound.limited:
            capped[name] = _within(max(limits[name], requested[name], key=nanos), bound)
            if name in limited or _exceeds_ratio(capped[name], requested[name], bound):
                requested[name] = capped[name]
        if nanos(requested[name]) < nanos(wanted):
            short[name] = requested[name]
    return Fitted({"requests": requested, **({"limits": capped} if capped else {})}, short)


def _within(amount: str, bound: ContainerBound) -> str:
    raised = max(amount, bound.minimum, key=nanos)
    return raised if bound.maximum is None else min(raised, bound.maximum, key=nanos)


def _exceeds_ratio(limit: str, request: str, bound: ContainerBound) -> bool:
    return bound.ratio is not None and nanos(limit) * nanos("1") > nanos(request) * nanos(bound.ratio)
