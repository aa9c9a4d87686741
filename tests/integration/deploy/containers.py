"""A container's arguments as the kubelet gives them to the process."""

from __future__ import annotations

from typing import Any

Manifest = dict[str, Any]

OWN_NAMESPACE = {"name": "NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}


def started(deployment: Manifest, name: str) -> Manifest:
    """The container ``name`` with $(NAMESPACE) replaced in its arguments, and without that variable."""
    (found,) = (one for one in deployment["spec"]["template"]["spec"]["containers"] if one["name"] == name)
    assert OWN_NAMESPACE in found["env"]
    namespace = deployment["metadata"]["namespace"]
    return {
        **found,
        "args": [word.replace("$(NAMESPACE)", namespace) for word in found["args"]],
        "env": [one for one in found["env"] if one != OWN_NAMESPACE],
    }
