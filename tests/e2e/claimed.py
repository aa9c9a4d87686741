"""Devices for tests of dynamic resource allocation: slices of nodes, classes, templates, and what was allocated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from tests.e2e.harness import Manifest, Namespace
from tests.localcluster import Api, ApiError

DRIVER = "gpu.example.com"
RESOURCE = "resource.k8s.io/v1"
API = f"/apis/{RESOURCE}"
MODEL, NUMA = f'device.attributes["{DRIVER}"].model', f"{DRIVER}/numa"


def device_class(name: str, *selectors: str, **spec: Any) -> Manifest:
    """A class of the driver's devices for which the selectors hold."""
    all_of = (f'device.driver == "{DRIVER}"', *selectors)
    return {
        "apiVersion": RESOURCE,
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": one}} for one in all_of], **spec},
    }


def resource_slice(node: str, models: Sequence[str], generation: int = 1, slices: int = 1) -> Manifest:
    """The slice of a node with one device for each of ``models``, the first half of them on one side of its memory."""
    devices = [
        {
            "name": f"gpu-{number}",
            "attributes": {
                "model": {"string": model},
                "numa": {"int": 2 * number // len(models)},
                "uuid": {"string": f"{node}-{number}"},
            },
            "capacity": {"memory": {"value": "80Gi" if model == "h100" else "40Gi"}},
        }
        for number, model in enumerate(models)
    ]
    return {
        "apiVersion": RESOURCE,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-gpus"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": generation, "resourceSliceCount": slices},
            "devices": devices,
        },
    }


def device_slice(name: str, *models: str, **where: Any) -> Manifest:
    """The slice of a pool with one device for each of ``models``, which are used where ``where`` says."""
    devices = [
        {"name": f"{name}-{number}", "attributes": {"model": {"string": model}}}
        for number, model in enumerate(models)
    ]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": RESOURCE,
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {"driver": DRIVER, "pool": pool, "devices": devices, **where},
    }


def with_label(key: str, value: str) -> Manifest:
    """A node selector."""
    rule = {"key": key, "operator": "In", "values": [value]}
    return {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}


def request(name: str, class_name: str, *selectors: str, count: int = 1, **exactly: Any) -> Manifest:
    """A request for some devices of a class."""
    return {
        "name": name,
        "exactly": {
            "deviceClassName": class_name,
            "count": count,
            **({"selectors": [{"cel": {"expression": one}} for one in selectors]} if selectors else {}),
            **exactly,
        },
    }


def template(name: str, *requests: Manifest, alike: str = "") -> Manifest:
    """A claim template; all devices have one value of the attribute ``alike``."""
    constraints = [{"requests": [], "matchAttribute": alike}] if alike else []
    devices = {"requests": list(requests), "constraints": constraints}
    return {
        "apiVersion": RESOURCE,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": {"devices": devices}},
    }


def claiming(manifest: Manifest, *, template: str = "", claim: str = "") -> Manifest:
    """The pod with a claim of its own made of a template, or with a claim that exists."""
    named = {"resourceClaimTemplateName": template} if template else {"resourceClaimName": claim}
    claims = manifest["spec"].setdefault("resourceClaims", [])
    name = f"c{len(claims)}"
    claims.append({"name": name, **named})
    container = manifest["spec"]["containers"][0]
    container["resources"].setdefault("claims", []).append({"name": name})
    return manifest


def shared_claim(name: str, *requests: Manifest) -> Manifest:
    """A claim that exists before the pods that name it."""
    spec = {"devices": {"requests": list(requests)}}
    return {"apiVersion": RESOURCE, "kind": "ResourceClaim", "metadata": {"name": name}, "spec": spec}


def partitioned_slices(node: str, gpus: int) -> list[Manifest]:
    """Slices of a node with devices of 4 slices of memory: each whole, or in quarters."""
    pool = {"name": node, "generation": 1, "resourceSliceCount": 2}
    devices, counters = [], []
    for gpu in range(gpus):
        sizes = {f"gpu-{gpu}": ("whole", 4), **{f"gpu-{gpu}-{part}": ("part", 1) for part in range(4)}}
        counters.append({"name": f"gpu-{gpu}", "counters": {"memory": {"value": "4"}}})
        devices += [
            {
                "name": name,
                "attributes": {"model": {"string": kind}},
                "consumesCounters": [
                    {"counterSet": f"gpu-{gpu}", "counters": {"memory": {"value": str(size)}}}
                ],
            }
            for name, (kind, size) in sizes.items()
        ]
    parts: dict[str, dict[str, Any]] = {
        "devices": {"devices": devices},
        "counters": {"sharedCounters": counters},
    }
    return [
        {
            "apiVersion": RESOURCE,
            "kind": "ResourceSlice",
            "metadata": {"name": f"{node}-{name}"},
            "spec": {"driver": DRIVER, "nodeName": node, "pool": pool, **part},
        }
        for name, part in parts.items()
    ]


def sharing_slice(node: str, gib: int) -> Manifest:
    """The slice of a node with one device that several claims may have, each a part of its memory."""
    manifest = resource_slice(node, ["shared"])
    (device,) = manifest["spec"]["devices"]
    device["allowMultipleAllocations"] = True
    policy = {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}
    device["capacity"] = {"memory": {"value": f"{gib}Gi", "requestPolicy": policy}}
    return manifest


@contextmanager
def served(api: Api, *manifests: Manifest) -> Iterator[None]:
    """Slices and classes that exist while the context lasts."""
    try:
        for one in manifests:
            api.create(one)
        yield
    finally:
        for one in manifests:
            plural = {"ResourceSlice": "resourceslices", "DeviceClass": "deviceclasses"}[one["kind"]]
            with suppress(ApiError):
                api.delete(f"{API}/{plural}/{one['metadata']['name']}")


def allocated(namespace: Namespace) -> dict[str, list[tuple[str, str]]]:
    """The devices of each allocated claim, as pool and name, by the name of the pod that it is reserved for."""
    found: dict[str, list[tuple[str, str]]] = {}
    for claim in namespace.api.get(f"{API}/namespaces/{namespace.name}/resourceclaims")["items"]:
        results = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
        for user in claim.get("status", {}).get("reservedFor", []):
            found.setdefault(user["name"], []).extend((one["pool"], one["device"]) for one in results)
    return found


def given_twice(namespace: Namespace) -> list[tuple[str, str]]:
    """The devices that several pods have."""
    counts = Counter(device for devices in allocated(namespace).values() for device in devices)
    return [device for device, count in counts.items() if count > 1]


def refusals(namespace: Namespace) -> list[str]:
    """What kube-scheduler said of pods that it tried and couldn't place."""
    events = namespace.api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace.name}/events")["items"]
    return [str(one.get("note")) for one in events if one.get("reason") == "FailedScheduling"]
