"""The parts of the official client that we use: its configuration, its loaders of credentials and its session.

The packages above these modules import everything below them, which is the whole client: its synchronous and its
asynchronous half, with informers, leader election and websockets. That would cost more CPU time than all other imports
of this room together. So these packages aren't run. This leaves no trace: ``import kubernetes`` elsewhere still gives
the whole client.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec, module_from_spec

__all__ = ["Configuration", "RESTClientObject", "incluster_config", "loaders"]


@contextmanager
def passing(*packages: str) -> Iterator[None]:
    """Import modules below ``packages`` without running these within this context. An outer package comes first."""
    passed = {}
    for name in packages:
        if name not in sys.modules:
            spec = find_spec(name)
            if spec is None:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
            passed[name] = sys.modules[name] = module_from_spec(spec)
    try:
        yield
    finally:
        for name in passed:
            del sys.modules[name]


with passing("kubernetes", "kubernetes.aio"):
    from kubernetes.aio import config as loaders
    from kubernetes.aio.client.configuration import Configuration
    from kubernetes.aio.client.rest import RESTClientObject
    from kubernetes.aio.config import incluster_config
