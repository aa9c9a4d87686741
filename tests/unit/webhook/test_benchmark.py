"""The benchmark's webhook patches the benchmark's pods."""

from __future__ import annotations

import base64
import json

import httpx
import pytest

from benchmarks.webhook import PODS, review, webhook_app


@pytest.mark.parametrize("kind", PODS)
async def test_pods_of_the_benchmark_are_patched(kind: str) -> None:
    body = review(PODS[kind](0), 0).partition(b"\r\n\r\n")[2]
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(webhook_app()), base_url="https://webhook"
    ) as client:
        answer = await client.post("/mutate", content=body, headers={"content-type": "application/json"})
    patch = json.loads(base64.b64decode(answer.json()["response"]["patch"]))
    assert any(operation["path"] == "/spec/schedulingGates" for operation in patch)
    variables = any(operation["path"].startswith("/spec/containers/0/env") for operation in patch)
    assert variables is (kind == "quantum pods")
