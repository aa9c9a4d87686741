"""What the LimitRanges of a namespace ask of each container: of ours as well, or the API server refuses their pod.

It fills in what a container leaves out and refuses what is out of bounds (k8s.io/kubernetes, plugin/pkg/admission/
limitranger), also after a webhook has added containers. Invariant: what ours ask for is within the bounds, and no less
than they need where the bounds allow it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from fluence_extender.model.quantity import InvalidQuantity, nanos
from fluence_extender.webhook.contract import Bound, Bounds, Json


@dataclass(frozen=True, slots=True)
class Fitted:
    """A container's ``resources``, and what of it is less than was asked for, by name of the resource."""

    resources: Json
    short: Mapping[str, str]


def read_bounds(items: Iterable[Json]) -> Bounds:
    """The bounds that these LimitRanges set together, by resource; what isn't a quantity sets none."""
    found: dict[str, Bound] = {}
    for item in items:
        for limit in (item.get("spec") or {}).get("limits") or ():
            if limit.get("type") == "Container":
                _narrow(found, limit)
    return found


def _narrow(found: dict[str, Bound], limit: Json) -> None:
    least, most, ratio = (limit.get(key) or {} for key in ("min", "max", "maxLimitRequestRatio"))
    limited = {*most, *ratio, *(limit.get("default") or {})}
    for name in {*least, *limited}:
        known = found.get(name, Bound())
        try:
            found[name] = Bound(
                least=max(known.least, str(least.get(name, "0")), key=nanos),
                most=min((one for one in (known.most, most.get(name)) if one), key=nanos, default=None),
                limited=known.limited or name in limited,
                ratio=min((one for one in (known.ratio, ratio.get(name)) if one), key=nanos, default=None),
            )
        except InvalidQuantity:
            continue


def fitted(
    asks: Mapping[str, str], limits: Mapping[str, str], limited: Collection[str], bounds: Bounds
) -> Fitted:
    """What a container asks for: ``asks``, with the ``limits`` (not below) of those in ``limited``, within ``bounds``.

    A limit that we choose ourselves is asked for whole, so that a pod of the class Guaranteed stays one.
    """
    requests, capped, short = dict(asks), dict[str, str](), dict[str, str]()
    for name in asks:
        bound = bounds.get(name)
        if bound is None:
            if name in limited:
                requests[name] = capped[name] = limits[name]
            continue
        requests[name] = _within(asks[name], bound)
        if name in limited or bound.limited:
            capped[name] = _within(max(limits[name], requests[name], key=nanos), bound)
            if name in limited or _too_far(capped[name], requests[name], bound):
                requests[name] = capped[name]
        if nanos(requests[name]) < nanos(asks[name]):
            short[name] = requests[name]
    return Fitted({"requests": requests, **({"limits": capped} if capped else {})}, short)


def _within(amount: str, bound: Bound) -> str:
    raised = max(amount, bound.least, key=nanos)
    return raised if bound.most is None else min(raised, bound.most, key=nanos)


def _too_far(limit: str, request: str, bound: Bound) -> bool:
    """Whether the limit is more than the allowed multiple of the request."""
    return bound.ratio is not None and nanos(limit) * nanos("1") > nanos(request) * nanos(bound.ratio)
