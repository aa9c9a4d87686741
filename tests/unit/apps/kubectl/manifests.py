"""Manifests that ask for a backend, and functions that read the result."""

from __future__ import annotations

import json
from typing import Any

import yaml

PREFIX = "fluence.flux-framework.org/"
REQUIRE = f"{PREFIX}require-backend"
RESULT = f"{PREFIX}select-result"

POD = f"""\
# Trains for an hour.
apiVersion: v1
kind: Pod
metadata:
  name: train   # of many
  annotations:
    # The cheapest that is large enough.
    {PREFIX}select-policy: "require:min_memory_gb=24,min-cost"  # see the wiki
spec:
  schedulerName: fluence
  containers:
  - {{name: main, image: "train:1", env: [{{name: FLAG, value: 'on'}}]}}
"""
PLAIN = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: plain}   # comment
data:
    script: |
      ---
      echo "---"
    mode: 0755
"""


def notes_of(document: Any) -> dict[str, str]:
    """Return the annotations of an object or a template."""
    return dict((document.get("metadata") or {}).get("annotations") or {})


def result_of(document: Any) -> dict[str, Any]:
    """Return the record of a selection."""
    record: dict[str, Any] = json.loads(notes_of(document)[RESULT])
    return record


def load(text: str | bytes) -> list[Any]:
    """Return all documents of a text."""
    return list(yaml.safe_load_all(text))


def without_pins(text: str) -> str:
    """Return a manifest without the lines that were added."""
    kept = [line for line in text.splitlines(keepends=True) if f"{REQUIRE}:" not in line]
    return "".join(line for line in kept if f"{RESULT}:" not in line)
