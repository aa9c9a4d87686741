"""The extenders of a KubeSchedulerConfiguration, called over HTTP as kube-scheduler calls them.

Source: k8s.io/kubernetes pkg/scheduler/extender.go. Filters run one after the other, each on what the one before it
left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import aiohttp

from fluence_extender.embeddedcluster.kube_scheduler import ExtenderFailed, Extenders, Filtered
from fluence_extender.model.notation import parse_duration
from fluence_extender.model.pod import Pod

DEFAULT_TIMEOUT = 5.0
"""Seconds: kube-scheduler's httpTimeout where the configuration gives none."""


class HttpExtenders(Extenders):
    """`Extenders` by the ``extenders`` of a KubeSchedulerConfiguration, over ``session``."""

    def __init__(self, session: aiohttp.ClientSession, extenders: Sequence[Mapping[str, Any]]) -> None:
        self._session = session
        self._extenders = extenders

    async def filter(self, pod: Pod, nodes: Sequence[str]) -> Filtered:
        """See `Extenders`."""
        left, refusals = tuple(nodes), list[str]()
        for extender in self._with_verb("filterVerb"):
            result = await self._call(extender, "filterVerb", _args(pod, left))
            if result["Error"]:
                raise ExtenderFailed(result["Error"])
            left = tuple(result["NodeNames"] or ())
            refusals += dict.fromkeys((result["FailedAndUnresolvableNodes"] or {}).values())
        return Filtered(left, "; ".join(refusals))

    async def prioritize(self, pod: Pod, nodes: Sequence[str]) -> Mapping[str, int]:
        """See `Extenders`."""
        scores = dict.fromkeys(nodes, 0)
        for extender in self._with_verb("prioritizeVerb"):
            for one in await self._call(extender, "prioritizeVerb", _args(pod, nodes)):
                scores[one["Host"]] += one["Score"] * extender["weight"]
        return scores

    @property
    def binds(self) -> bool:
        """See `Extenders`."""
        return any(self._with_verb("bindVerb"))

    async def bind(self, pod: Pod, node: str) -> None:
        """See `Extenders`."""
        extender = next(iter(self._with_verb("bindVerb")))
        body = {"PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.uid, "Node": node}
        result = await self._call(extender, "bindVerb", body)
        if result["Error"]:
            raise ExtenderFailed(result["Error"])

    def _with_verb(self, verb: str) -> Iterable[Mapping[str, Any]]:
        return (one for one in self._extenders if verb in one)

    async def _call(self, extender: Mapping[str, Any], verb: str, body: Mapping[str, Any]) -> Any:
        url = f"{extender['urlPrefix']}/{extender[verb]}"
        limit = parse_duration(extender.get("httpTimeout", "")) or DEFAULT_TIMEOUT
        try:
            async with (
                asyncio.timeout(limit),
                self._session.post(url, json=body, timeout=aiohttp.ClientTimeout()) as response,
            ):
                if response.status != 200:
                    raise ExtenderFailed(f"failed {extender[verb]} at URL {url}, code {response.status}")
                return await response.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ExtenderFailed(f"failed {extender[verb]} at URL {url}: {error or 'no answer'}") from error


def _args(pod: Pod, nodes: Sequence[str]) -> dict[str, Any]:
    metadata = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
    wire = {"metadata": metadata, "spec": {"schedulerName": pod.scheduler}}
    return {"Pod": wire, "Nodes": None, "NodeNames": list(nodes)}
