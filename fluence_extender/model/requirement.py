"""The version of Kubernetes that this service needs: the first that serves MutatingAdmissionPolicy as stable."""

from __future__ import annotations

import re

NEEDED = (1, 36)
NEEDS = "Kubernetes 1.36 or newer is needed"

_VERSION = re.compile(r"v(\d+)\.(\d+)\b")


def is_too_old(version: str) -> bool:
    """Return whether an API server whose ``gitVersion`` this is lacks what we need; of an odd text we can't tell."""
    found = _VERSION.match(version)
    return found is not None and (int(found[1]), int(found[2])) < NEEDED
