"""What the API server adds to a pod when it is created: requests, ports, priority and overhead.

A template shows none of it, so whoever plans from a template plans too little, and on the wrong nodes.

Sources: Kubernetes pkg/apis/core/v1/defaults.go (SetDefaults_Pod, SetDefaults_LimitRangeItem) and the admission plugins
plugin/pkg/admission/{limitranger,priority,runtimeclass}.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from fluence_extender.kinds.pod_sets import Json
from fluence_extender.model.quantity import InvalidQuantity, nanos
from fluence_extender.model.resources import CPU, MEMORY

KINDS = ("PriorityClass", "RuntimeClass", "LimitRange")
"""The kinds of objects that decide what is added to a pod."""

BUILT_IN = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""The PriorityClasses of every cluster (Kubernetes, pkg/apis/scheduling)."""

PREEMPTS = "PreemptLowerPriority"
PRIORITY_FIELDS = {
    "priority": "integer value of priority",
    "preemptionPolicy": "string value of PreemptionPolicy",
}
"""The fields that follow from the PriorityClass, each with the API server's word for it."""

CONTAINERS = ("initContainers", "containers")


class PodRefused(Exception):
    """The API server refuses the pod; the text says why."""


class AdmissionObjects:
    """The PriorityClasses, RuntimeClasses and LimitRanges among ``manifests``."""

    def __init__(self, manifests: Iterable[Mapping[str, Any]] = ()) -> None:
        self._priorities: dict[str, Mapping[str, Any]] = {}
        self._runtimes: dict[str, Mapping[str, Any]] = {}
        self._ranges: dict[str, list[Mapping[str, Any]]] = {}
        self._default = ""
        """The name of the PriorityClass of pods that name none, "" without one."""
        for manifest in manifests:
            self._add(manifest)

    def _add(self, manifest: Mapping[str, Any]) -> None:
        meta = manifest.get("metadata")
        name = str(meta.get("name")) if isinstance(meta, dict) else ""
        match manifest.get("kind"):
            case "PriorityClass" if isinstance(manifest.get("value"), int):
                self._priorities[name] = manifest
                default = self._priorities.get(self._default)
                if manifest.get("globalDefault") is True and (
                    default is None or default["value"] > manifest["value"]
                ):
                    self._default = name
            case "RuntimeClass":
                self._runtimes[name] = manifest
            case "LimitRange":
                namespace = str(meta.get("namespace") or "default") if isinstance(meta, dict) else ""
                limits = (manifest.get("spec") or {}).get("limits") or ()
                self._ranges.setdefault(namespace, []).extend(limits)

    def within_ranges(self, pod: Json) -> Json:
        """Return the pod with the requests and limits of its LimitRanges. Raise `PodRefused` if it is out of bounds."""
        limits = self._ranges.get(pod["metadata"]["namespace"], [])
        return {**pod, "spec": _ranged(pod["spec"], [_completed(one) for one in limits])}

    def with_classes(self, spec: Json) -> Json:
        """Return the spec with the priority and the overhead of its classes.

        Raise `PodRefused` if it contradicts one.
        """
        return self._with_runtime(self._with_priority(spec))

    def missing(self, spec: Mapping[str, Any]) -> str:
        """Return which class the pod names that isn't among these, in the words of the API server; "" if none is."""
        name = spec.get("priorityClassName")
        if name and name not in self._priorities and name not in BUILT_IN:
            return f"no PriorityClass with name {name} was found"
        name = spec.get("runtimeClassName")
        if name and name not in self._runtimes:
            return f'RuntimeClass "{name}" not found'
        return ""

    def without_own_classes(self, spec: Mapping[str, Any]) -> Json:
        """Return the spec without what `restored` adds again, for a trial in a cluster that doesn't have these."""
        left_out = self._decided_by_own_classes(spec)
        return {key: value for key, value in spec.items() if key not in left_out}

    def restored(self, tried: Json, spec: Mapping[str, Any]) -> Json:
        """Return the spec that was ``tried`` without own classes, with what ``spec`` states for them."""
        left_out = self._decided_by_own_classes(spec)
        kept = {key: value for key, value in tried.items() if key not in left_out}
        return {**kept, **{key: spec[key] for key in left_out if key in spec}}

    def _decided_by_own_classes(self, spec: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the fields that name classes among these, or that follow from them alone."""
        name = spec.get("priorityClassName") or self._default
        by_priority = ("priorityClassName", *PRIORITY_FIELDS) if name in self._priorities else ()
        by_runtime = ("runtimeClassName",) if spec.get("runtimeClassName") in self._runtimes else ()
        return (*by_priority, *by_runtime)

    def _with_priority(self, spec: Json) -> Json:
        """Return the spec with what its PriorityClass states; nothing else may be stated in its place."""
        name = spec.get("priorityClassName") or self._default
        value, policy = BUILT_IN.get(name, 0), PREEMPTS
        if (found := self._priorities.get(name)) is not None:
            value, policy = found["value"], found.get("preemptionPolicy") or PREEMPTS
        elif name and name not in BUILT_IN:
            return spec
        computed = {"priority": value, "preemptionPolicy": policy}
        for (field, result), words in zip(computed.items(), PRIORITY_FIELDS.values(), strict=True):
            stated = spec.get(field)
            if stated is not None and stated != result:
                raise PodRefused(
                    f"the {words} ({stated}) must not be provided in pod spec; priority admission controller computed "
                    f"{result} from the given PriorityClass name"
                )
        return {**spec, **({"priorityClassName": name} if name else {}), **computed}

    def _with_runtime(self, spec: Json) -> Json:
        found = self._runtimes.get(str(spec.get("runtimeClassName")))
        if found is None:
            return spec
        added: Json = {}
        if overhead := (found.get("overhead") or {}).get("podFixed"):
            added["overhead"] = overhead
        scheduling = found.get("scheduling") or {}
        if selector := scheduling.get("nodeSelector"):
            own = spec.get("nodeSelector") or {}
            for key in selector.keys() & own.keys():
                if selector[key] != own[key]:
                    raise PodRefused(
                        f"spec.nodeSelector.{key} is {own[key]}, but its RuntimeClass needs {selector[key]}"
                    )
            added["nodeSelector"] = {**own, **selector}
        if tolerations := scheduling.get("tolerations"):
            added["tolerations"] = [*(spec.get("tolerations") or ()), *tolerations]
        return {**spec, **added}


def with_defaults(pod: Json) -> Json:
    """Return the pod with requests in place of limits that stand alone, and with the ports of the host's network."""
    spec: Json = dict(pod["spec"])
    for kind in CONTAINERS:
        if spec.get(kind):
            spec[kind] = [_with_own_limits(one) for one in spec[kind]]
            if spec.get("hostNetwork"):
                spec[kind] = [_with_host_ports(one) for one in spec[kind]]
    resources = spec.get("resources") or {}
    if resources.get("limits"):
        spec["resources"] = {**resources, "requests": _of_pod(spec, resources)}
    return {**pod, "spec": spec}


def _with_own_limits(container: Mapping[str, Any]) -> Json:
    resources = container.get("resources") or {}
    if not resources.get("limits"):
        return dict(container)
    requests = {**resources["limits"], **(resources.get("requests") or {})}
    return {**container, "resources": {**resources, "requests": requests}}


def _with_host_ports(container: Mapping[str, Any]) -> Json:
    ports = container.get("ports")
    if not ports:
        return dict(container)
    return {
        **container,
        "ports": [{**one, "hostPort": one.get("hostPort") or one.get("containerPort")} for one in ports],
    }


def _of_pod(spec: Mapping[str, Any], resources: Mapping[str, Any]) -> Json:
    """Return the requests of the pod as a whole.

    Where containers request a resource, their sum counts for the pod, which needs no request of its own.
    """
    asked = {
        name
        for kind in CONTAINERS
        for one in spec.get(kind) or ()
        for name in (one.get("resources") or {}).get("requests") or ()
    }
    limits = {
        name: amount
        for name, amount in resources["limits"].items()
        if name not in asked and (name in (CPU, MEMORY) or name.startswith("hugepages-"))
    }
    return {**limits, **(resources.get("requests") or {})}


def _completed(limit: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return one item of a LimitRange with the defaults that follow from its bounds."""
    if limit.get("type") != "Container":
        return limit
    default = {**(limit.get("max") or {}), **(limit.get("default") or {})}
    request = {**(limit.get("min") or {}), **default, **(limit.get("defaultRequest") or {})}
    return {**limit, "default": default, "defaultRequest": request}


def _ranged(spec: Json, limits: Iterable[Mapping[str, Any]]) -> Json:
    """Return the spec with the defaults of LimitRanges. Raise `PodRefused` if it is out of their bounds."""
    of_containers = [one for one in limits if one.get("type") == "Container"]
    if not of_containers:
        return spec
    ranged = dict(spec)
    for kind in CONTAINERS:
        if spec.get(kind):
            ranged[kind] = [_within(one, of_containers) for one in spec[kind]]
    return ranged


def _within(container: Mapping[str, Any], limits: Iterable[Mapping[str, Any]]) -> Json:
    resources = container.get("resources") or {}
    requests, most = dict(resources.get("requests") or {}), dict(resources.get("limits") or {})
    for one in limits:
        for name, amount in one["default"].items():
            most.setdefault(name, amount)
        for name, amount in one["defaultRequest"].items():
            requests.setdefault(name, amount)
        for text in _out_of_bounds(one, requests, most):
            raise PodRefused(text)
    return {**container, "resources": {**resources, "requests": requests, "limits": most}}


def _out_of_bounds(
    limit: Mapping[str, Any], requests: Mapping[str, Any], most: Mapping[str, Any]
) -> Iterator[str]:
    """Yield what is wrong, in the words of the API server."""
    too_small: Callable[[int, int], bool] = int.__lt__
    too_large: Callable[[int, int], bool] = int.__gt__
    checks = (
        ("min", "minimum", "request", requests, too_small),
        ("min", "minimum", "limit", most, too_small),
        ("max", "maximum", "limit", most, too_large),
        ("max", "maximum", "request", requests, too_large),
    )
    for bound, word, field, given, is_wrong in checks:
        for name, amount in (limit.get(bound) or {}).items():
            if name not in given:
                continue
            try:
                wrong = is_wrong(nanos(given[name]), nanos(amount))
            except InvalidQuantity:
                continue
            if wrong:
                yield f"{word} {name} usage per Container is {amount}, but {field} is {given[name]}"
