"""Our containers in a namespace whose LimitRanges could have their pod refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluence_extender.model.quantity import nanos
from fluence_extender.webhook.limit_ranges import ContainerBound, fit, read_bounds
from fluence_extender.webhook.lookups import FRESH
from fluence_extender.webhook.mutate import mutate
from tests.unit.webhook.pods import ALL, CONTEXT, QPU, REQUEST, applied, container, grouped
from tests.unit.webhook.stored_objects import StoredObjects, lookups_on, refusing

Json = dict[str, Any]
PATH = "/api/v1/namespaces/lab/limitranges"
ASKS = {"cpu": "100m", "memory": "256Mi"}


def limit_range(**limits: dict[str, str]) -> Json:
    """Return a LimitRange as the API server stores it, with the defaults that follow from the bounds."""
    return limited("Container", limits)


def limited(kind: str, limits: Mapping[str, Mapping[str, str]]) -> Json:
    """Return a LimitRange of containers, pods or volumes."""
    stored = {name: dict(amounts) for name, amounts in limits.items()}
    if kind == "Container":
        default, request = (stored.setdefault(name, {}) for name in ("default", "defaultRequest"))
        for name, amount in stored.get("max", {}).items():
            default.setdefault(name, amount)
        for source in (default, stored.get("min", {})):
            for name, amount in source.items():
                request.setdefault(name, amount)
    return {"spec": {"limits": [{"type": kind, **stored}]}}


def admits(resources: Json, ranges: list[Json]) -> bool:
    """Return whether the API server's LimitRanger admits a container, after filling in what is missing."""
    requests, limits = dict(resources.get("requests") or {}), dict(resources.get("limits") or {})
    every = [limit for one in ranges for limit in one["spec"]["limits"] if limit["type"] == "Container"]
    for limit in every:
        for name, amount in limit.get("default", {}).items():
            limits.setdefault(name, amount)
        for name, amount in limit.get("defaultRequest", {}).items():
            requests.setdefault(name, amount)
    ordered = all(nanos(requests[name]) <= nanos(limits[name]) for name in requests if name in limits)
    return ordered and all(_obeys(limit, requests, limits) for limit in every)


def _obeys(limit: Json, requests: dict[str, str], limits: dict[str, str]) -> bool:
    for name, amount in limit.get("min", {}).items():
        if name not in requests or nanos(requests[name]) < nanos(amount):
            return False
        if name in limits and nanos(limits[name]) < nanos(amount):
            return False
    for name, amount in limit.get("max", {}).items():
        if name not in limits or nanos(limits[name]) > nanos(amount):
            return False
    for name, ratio in limit.get("maxLimitRequestRatio", {}).items():
        if name not in limits or nanos(limits[name]) > nanos(ratio) // 10**9 * nanos(requests[name]):
            return False
    return True


@pytest.mark.parametrize(
    ("spec", "resources"),
    [
        ({}, {"requests": ASKS}),
        ({"min": {"memory": "512Mi"}}, {"requests": {"cpu": "100m", "memory": "512Mi"}}),
        ({"min": {"cpu": "50m", "memory": "64Mi"}}, {"requests": ASKS}),
        (
            {"default": {"memory": "32Mi"}},
            {"requests": ASKS, "limits": {"memory": "256Mi"}},
        ),
        (
            {"max": {"memory": "128Mi"}},
            {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "128Mi"}},
        ),
        (
            {"min": {"cpu": "0.5"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "1"}},
            {"requests": {"cpu": "0.5", "memory": "256Mi"}, "limits": {"cpu": "0.5"}},
        ),
    ],
)
def test_resources_are_within_the_bounds(spec: dict[str, dict[str, str]], resources: Json) -> None:
    ranges = [limit_range(**spec)]
    assert fit(ASKS, ASKS, (), read_bounds(ranges)).resources == resources
    assert admits(resources, ranges)


def test_limit_beyond_the_allowed_ratio_is_requested_in_full() -> None:
    bounds = read_bounds([limit_range(max={"cpu": "2"}, maxLimitRequestRatio={"cpu": "4"})])
    loose = fit({"cpu": "50m"}, {"cpu": "200m"}, (), bounds).resources
    assert loose == {"requests": {"cpu": "50m"}, "limits": {"cpu": "200m"}}
    tight = fit({"cpu": "10m"}, {"cpu": "200m"}, (), bounds).resources
    assert tight == {"requests": {"cpu": "200m"}, "limits": {"cpu": "200m"}}


def test_strictest_bound_on_containers_counts() -> None:
    bounds = read_bounds(
        [
            limit_range(min={"cpu": "1"}, max={"cpu": "4"}, maxLimitRequestRatio={"cpu": "3"}),
            limit_range(min={"cpu": "500m"}, max={"cpu": "2000m"}, maxLimitRequestRatio={"cpu": "2"}),
            limited("Pod", {"min": {"cpu": "3"}}),
            limited("PersistentVolumeClaim", {"min": {"storage": "1Gi"}}),
            {"spec": {"limits": [{"type": "Container", "min": {"memory": "much"}}]}},
            {},
        ]
    )
    assert bounds == {"cpu": ContainerBound("1", "2000m", True, "2")}


MEMORY = st.sampled_from(["16Mi", "64Mi", "100M", "256Mi", "1Gi"])
CPU = st.sampled_from(["1m", "10m", "100m", "0.2", "2"])
AMOUNTS = st.fixed_dictionaries({}, optional={"cpu": CPU, "memory": MEMORY})


@st.composite
def consistent(draw: st.DrawFn) -> Json:
    """Return a LimitRange that the API server accepts: of each resource min <= defaultRequest <= default <= max."""
    spec: dict[str, dict[str, str]] = {}
    for name, amount in (("cpu", CPU), ("memory", MEMORY)):
        least, middle, most = sorted((draw(amount) for _ in range(3)), key=nanos)
        for field, value in (("min", least), ("default", middle), ("max", most)):
            if draw(st.booleans()):
                spec.setdefault(field, {})[name] = value
        if draw(st.booleans()):
            spec.setdefault("maxLimitRequestRatio", {})[name] = draw(st.sampled_from(["1", "2", "10"]))
    return limit_range(**spec)


@given(consistent(), st.sets(st.sampled_from(["cpu", "memory"])))
def test_resources_of_our_containers_are_admitted(limits: Json, limited: set[str]) -> None:
    for asks, most in ((ASKS, ASKS), ({"cpu": "10m", "memory": "64Mi"}, {"cpu": "200m", "memory": "64Mi"})):
        fitted = fit(asks, most, limited, read_bounds([limits]))
        assert admits(fitted.resources, [limits])
        assert limited <= fitted.resources.get("limits", {}).keys()
        for name in limited:
            assert fitted.resources["requests"][name] == fitted.resources["limits"][name]


def test_our_containers_fit_the_bounds_and_too_little_memory_is_a_warning() -> None:
    body = grouped(container(asks={QPU: "1", "cpu": "1"}), mode="shared", index="0")
    bounds = read_bounds([limit_range(min={"cpu": "250m"}, max={"memory": "100Mi"})])
    outcome = mutate(body, replace(REQUEST, bounds=bounds), ALL, CONTEXT)
    stage, sidecar = applied(body, outcome)["spec"]["initContainers"]
    assert stage["resources"] == {
        "requests": {"cpu": "250m", "memory": "64Mi"},
        "limits": {"memory": "64Mi"},
    }
    assert sidecar["resources"] == {
        "requests": {"cpu": "250m", "memory": "100Mi"},
        "limits": {"memory": "100Mi"},
    }
    (warning,) = outcome.warnings
    assert "container fluence-sidecar only 100Mi of memory, and it needs up to 256Mi" in warning


async def test_limit_ranges_are_read_again_after_a_second() -> None:
    objects, now = StoredObjects(), [0.0]
    source = lookups_on(objects, lambda: now[0])
    assert await source.bounds("lab") == {}
    objects.put(PATH, {"items": [limit_range(min={"cpu": "1"})]})
    assert await source.bounds("lab") == {}
    now[0] += FRESH
    assert await source.bounds("lab") == {"cpu": ContainerBound(minimum="1")}
    assert await source.bounds("elsewhere") == {}


async def test_limit_ranges_that_can_not_be_read_set_no_bounds() -> None:
    objects = StoredObjects()
    objects.put(PATH, {"items": [limit_range(min={"cpu": "1"})]})
    objects.before = refusing("read")
    assert await lookups_on(objects, lambda: 0.0).bounds("lab") == {}
