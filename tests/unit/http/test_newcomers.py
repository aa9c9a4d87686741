"""Tokens that nobody knows cost the API server few questions, and their flood keeps no known caller out."""

from __future__ import annotations

import base64
import json

import pytest

from fluence_extender.http.listeners.gate import REMEMBERED, AccessRefused, ReviewingGate
from fluence_extender.http.listeners.newcomers import (
    A_SECOND,
    ALL_A_SECOND,
    ALL_AT_ONCE,
    AT_ONCE,
    LEEWAY,
    Newcomers,
    impossible,
)
from fluence_extender.model.access import Caller, question
from tests.unit.http.callers import KnownCallers, request_of

ASK = question("GET", "/v1/gangs")
NOW = 1_000_000.0


class Seconds:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def jwt(header: object, claims: object, signature: str = "c2ln") -> str:
    parts = (
        base64.urlsafe_b64encode(json.dumps(one).encode()).decode().rstrip("=") for one in (header, claims)
    )
    return ".".join((*parts, signature))


@pytest.mark.parametrize(
    "token",
    [
        jwt({"alg": "RS256"}, {"iss": "https://kubernetes.default.svc", "exp": NOW + 10}),
        jwt({"alg": "ES256"}, {"iss": "https://login.example.com", "exp": NOW - LEEWAY + 1}),
        jwt({"alg": "RS256"}, {"iss": "kubernetes/serviceaccount"}),
        "07401b.f395accd246ae52d",
        "31ada4fd-adec-460c-809a-9e56ceb75269",
        "k8s-aws-v1.aHR0cHM6Ly9zdHM",
        "a.b.c",
        "..",
        "eyJhbGciOiJSUzI1NiJ9.e30.",
        "[" * 5_000 + ".x.y",
    ],
)
def test_token_that_some_api_server_may_accept_is_asked_about(token: str) -> None:
    if token.endswith("e30."):
        assert impossible(token, NOW) == "it isn't signed"
    else:
        assert impossible(token, NOW) == ""


@pytest.mark.parametrize(
    ("token", "why"),
    [
        ("two words", "characters"),
        ("f\u00fcr", "characters"),
        (jwt({"alg": "RS256"}, {"exp": NOW - LEEWAY - 1}), "expired"),
        (jwt({"alg": "none"}, {"exp": NOW + 10}), "signed"),
    ],
)
def test_token_that_no_api_server_accepts_is_refused_at_once(token: str, why: str) -> None:
    assert why in impossible(token, NOW)


@pytest.fixture
def server() -> KnownCallers:
    return KnownCallers(tokens={"annas": Caller("anna")}, rights={"anna": {ASK}})


@pytest.fixture
def clock() -> Seconds:
    return Seconds()


async def status(gate: ReviewingGate, token: str, address: str) -> int:
    scope = {**request_of(token=token), "client": (address, 1234)}
    try:
        await gate.admit(scope)
    except AccessRefused as refused:
        return refused.status
    return 200


async def test_one_address_is_told_to_wait_after_so_many_tokens(server: KnownCallers, clock: Seconds) -> None:
    gate = ReviewingGate(server, clock)
    found = [await status(gate, f"random-{number}", "10.0.0.1") for number in range(AT_ONCE + 50)]
    assert found == [401] * AT_ONCE + [429] * 50
    assert len(server.asked) == AT_ONCE
    clock.now += 10
    found = [await status(gate, f"later-{number}", "10.0.0.1") for number in range(50)]
    assert found.count(401) == 10 * A_SECOND


async def test_flood_of_many_addresses_is_bounded_too_and_a_known_caller_isnt_kept_out(
    server: KnownCallers, clock: Seconds
) -> None:
    gate = ReviewingGate(server, clock)
    assert await status(gate, "annas", "10.0.0.9") == 200
    before = len(server.asked)
    for number in range(2_000):
        await status(gate, f"random-{number}", f"10.1.{number % 250}.1")
    assert len(server.asked) - before < ALL_AT_ONCE
    clock.now += REMEMBERED + 0.001
    for number in range(200):
        await status(gate, f"more-{number}", f"10.1.{number % 250}.1")
    assert await status(gate, "annas", "10.1.1.1") == 200


async def test_token_that_isnt_accepted_any_more_is_a_newcomer_again(
    server: KnownCallers, clock: Seconds
) -> None:
    gate = ReviewingGate(server, clock)
    assert await status(gate, "annas", "10.0.0.1") == 200
    server.tokens.clear()
    clock.now += REMEMBERED
    assert await status(gate, "annas", "10.0.0.1") == 401
    found = [await status(gate, f"random-{number}", "10.0.0.1") for number in range(AT_ONCE)]
    clock.now += REMEMBERED
    assert found[0] == 401
    found = [await status(gate, f"again-{number}", "10.0.0.1") for number in range(AT_ONCE)]
    assert 429 in found


async def test_addresses_of_one_ipv6_network_count_as_one(server: KnownCallers, clock: Seconds) -> None:
    gate = ReviewingGate(server, clock)
    found = [await status(gate, f"random-{number}", f"2001:db8::{number:x}") for number in range(AT_ONCE + 5)]
    assert found.count(429) == 5


def test_addresses_that_are_remembered_are_bounded(clock: Seconds) -> None:
    counted = Newcomers(clock)
    for number in range(10_000):
        clock.now += 0.05
        counted.may_ask(b"key", f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert len(counted._by_network) <= ALL_AT_ONCE + 2 * ALL_A_SECOND * AT_ONCE / A_SECOND
