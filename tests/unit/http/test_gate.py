"""The gate of the state API admits the right callers, and seldom asks the API server about them."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from fluence_extender.http.listeners.front_proxy import (
    AUTHORITIES,
    BadFrontProxy,
    FrontProxy,
    read_front_proxy,
)
from fluence_extender.http.listeners.gate import (
    LONGEST_TOKEN,
    REMEMBERED,
    AccessRefused,
    OpenGate,
    ReviewingGate,
    is_loopback,
)
from fluence_extender.identity.certificates import KeyPair, make_authority, make_leaf, pem
from fluence_extender.model.access import (
    EVERYTHING,
    METRICS,
    NODES,
    Caller,
    CallerSight,
    pods_in,
    question,
)
from fluence_extender.model.wording import WithNames
from tests.unit.http.callers import KnownCallers, request_of

NOW = datetime.now(UTC)
PROXY = make_authority(NOW)
ASK = question("GET", "/v1/gangs")
ANNA = Caller("anna", ("physicists",))


class Seconds:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def published(authority: KeyPair = PROXY, names: tuple[str, ...] = ("fluence",)) -> dict[str, str]:
    return {
        AUTHORITIES: pem(authority.certificate).decode(),
        "requestheader-allowed-names": json.dumps(names),
        "requestheader-username-headers": '["X-Remote-User"]',
        "requestheader-uid-headers": '["X-Remote-Uid"]',
        "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
    }


def front_proxy(authority: KeyPair = PROXY, names: tuple[str, ...] = ("fluence",)) -> FrontProxy:
    found = read_front_proxy(published(authority, names))
    assert found is not None
    return found


def certificate(authority: KeyPair = PROXY) -> bytes:
    """A client certificate of this authority, whose common name is fluence."""
    return make_leaf(authority, ["front-proxy"], NOW).certificate.public_bytes(Encoding.DER)


@pytest.fixture
def server() -> KnownCallers:
    return KnownCallers(
        tokens={"annas": ANNA, "admins": Caller("admin")},
        rights={"anna": {pods_in("lab"), ASK}, "admin": {pods_in(""), NODES, METRICS, ASK}},
    )


@pytest.fixture
def clock() -> Seconds:
    return Seconds()


@pytest.fixture
def gate(server: KnownCallers, clock: Seconds) -> ReviewingGate:
    return ReviewingGate(server, clock)


async def refusal(gate: ReviewingGate, *, right: bool = False, **request: str | bytes) -> tuple[int, str]:
    """The status and the text with which a request is refused."""
    scope = request_of(**request)  # type: ignore[arg-type]
    with pytest.raises(AccessRefused) as refused:
        await (gate.demand(scope, METRICS) if right else gate.admit(scope))
    return refused.value.status, str(refused.value)


async def test_caller_without_a_name_is_refused_and_told_the_way(gate: ReviewingGate) -> None:
    status, text = await refusal(gate)
    assert status == 401
    assert "kubectl fluence" in text
    assert "bearer token" in text


async def test_token_that_the_api_server_does_not_accept_is_refused(gate: ReviewingGate) -> None:
    status, text = await refusal(gate, token="of-another-audience")
    assert (status, "another audience" in text) == (401, True)


@pytest.mark.parametrize(
    "value", ["Basic YTpi", "Bearer", "Bearer ", "annas", "Bearer " + "x" * LONGEST_TOKEN]
)
async def test_header_without_a_usable_token_names_no_one(
    value: str, gate: ReviewingGate, server: KnownCallers
) -> None:
    assert (await refusal(gate, authorization=value))[0] == 401
    assert server.asked == []


async def test_caller_sees_the_namespaces_whose_pods_he_may_list(gate: ReviewingGate) -> None:
    sight = await gate.sight(request_of("annas"), lambda: ["lab", "bank"])
    assert ("lab" in sight, "bank" in sight, sight.everything) == (True, False, False)
    everything = await gate.sight(request_of("admins"), lambda: ["lab", "bank"])
    assert everything.everything


def test_names_are_read_by_those_who_may_see_all_that_they_are_of() -> None:
    named = WithNames("behind lab/first, bank/second", frozenset({"lab", "bank"}))
    for seen in ((), ("lab",), ("bank",), ("lab", "vault")):
        assert CallerSight(frozenset(seen)).wording("behind 2 gangs", named) == "behind 2 gangs"
    for sight in (EVERYTHING, CallerSight(frozenset({"lab", "bank", "vault"}))):
        assert sight.wording("behind 2 gangs", named) == named.text
        assert sight.wording("behind 2 gangs", None) == "behind 2 gangs"


async def test_metrics_need_the_right_to_get_their_path(gate: ReviewingGate) -> None:
    status, text = await refusal(gate, right=True, token="annas")
    assert (status, text) == (403, "you may not get /metrics; an administrator grants it with RBAC")
    await gate.demand(request_of("admins"), METRICS)


async def test_repeated_requests_cost_no_call_to_the_api_server(
    gate: ReviewingGate, server: KnownCallers, clock: Seconds
) -> None:
    for _ in range(50):
        await gate.sight(request_of("annas"), lambda: ["lab"])
    asked = ["whose is annas", "may anna list pods in all namespaces", "may anna list pods in namespace lab"]
    assert server.asked == asked
    clock.now += REMEMBERED + 1
    await gate.sight(request_of("annas"), lambda: ["lab"])
    assert server.asked == asked * 2


async def test_requests_at_the_same_time_share_one_question(
    gate: ReviewingGate, server: KnownCallers
) -> None:
    await asyncio.gather(*(gate.admit(request_of("annas")) for _ in range(20)))
    assert server.asked == ["whose is annas", f"may anna {ASK}"]


async def test_caller_who_leaves_does_not_end_the_question_of_others(
    gate: ReviewingGate, server: KnownCallers
) -> None:
    leaving, staying = (asyncio.create_task(gate.admit(request_of("annas"))) for _ in range(2))
    await asyncio.sleep(0)
    leaving.cancel()
    await staying
    assert leaving.cancelled()
    assert server.asked.count("whose is annas") == 1


async def test_while_the_api_server_is_away_decisions_expire_and_then_nobody_is_let_in(
    gate: ReviewingGate, server: KnownCallers, clock: Seconds
) -> None:
    await gate.admit(request_of("annas"))
    server.away = True
    await gate.admit(request_of("annas"))
    clock.now += REMEMBERED + 1
    status, text = await refusal(gate, token="annas")
    assert status == 503
    assert "the API server can't be asked" in text
    server.away = False
    await gate.admit(request_of("annas"))


async def test_right_that_is_taken_away_ends_within_seconds(
    gate: ReviewingGate, server: KnownCallers, clock: Seconds
) -> None:
    assert "lab" in await gate.sight(request_of("annas"), lambda: ["lab"])
    server.rights["anna"].clear()
    clock.now += REMEMBERED + 1
    assert "lab" not in await gate.sight(request_of("annas"), lambda: ["lab"])


async def test_what_is_remembered_is_bounded(
    gate: ReviewingGate, server: KnownCallers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate._callers, "_most", 10)
    for number in range(50):
        with pytest.raises(AccessRefused):
            await gate.admit(request_of(f"guess-{number}"))
    assert len(gate._callers) == 10


async def test_caller_at_our_address_needs_the_same_right_to_ask_as_through_the_api_server(
    gate: ReviewingGate, server: KnownCallers
) -> None:
    server.rights["anna"].remove(ASK)
    assert await refusal(gate, token="annas") == (
        403,
        "you may not list gangs.fluence.flux-framework.org; an administrator grants it with RBAC",
    )
    gate.adopt(front_proxy())
    await gate.admit(request_of(peer=certificate(), x_remote_user="anna"))


@pytest.mark.parametrize(
    ("method", "path", "verb", "resource"),
    [
        ("GET", "/v1/gangs", "list", "gangs"),
        ("GET", "/v1/gangs/lab/vqe", "get", "gangs"),
        ("GET", "/v1/nodes/n1", "get", "nodes"),
        ("POST", "/v1/simulate", "create", "simulate"),
    ],
)
def test_right_to_ask_is_the_one_that_the_api_server_demands(
    method: str, path: str, verb: str, resource: str
) -> None:
    asked = question(method, path)
    assert (asked.verb, asked.resource, asked.group) == (verb, resource, "fluence.flux-framework.org")


async def test_front_proxy_names_the_user(gate: ReviewingGate, server: KnownCallers) -> None:
    gate.adopt(front_proxy())
    scope = request_of(peer=certificate(), x_remote_user="anna", x_remote_group="physicists")
    assert "lab" in await gate.sight(scope, lambda: ["lab"])
    assert server.asked[0] == "may anna list pods in all namespaces"


async def test_headers_without_the_front_proxys_certificate_name_no_one(gate: ReviewingGate) -> None:
    gate.adopt(front_proxy())
    assert (await refusal(gate, x_remote_user="admin"))[0] == 401
    stranger = certificate(make_authority(NOW))
    assert (await refusal(gate, peer=stranger, x_remote_user="admin"))[0] == 401
    assert (await refusal(gate, peer=b"no certificate", x_remote_user="admin"))[0] == 401


async def test_headers_of_a_forger_do_not_change_who_a_token_belongs_to(gate: ReviewingGate) -> None:
    gate.adopt(front_proxy())
    sight = await gate.sight(request_of("annas", x_remote_user="admin"), lambda: ["bank"])
    assert "bank" not in sight


async def test_certificate_of_another_name_is_not_the_front_proxy(gate: ReviewingGate) -> None:
    gate.adopt(front_proxy(names=("front-proxy-client",)))
    assert (await refusal(gate, peer=certificate(), x_remote_user="admin"))[0] == 401
    gate.adopt(front_proxy(names=()))
    await gate.admit(request_of(peer=certificate(), x_remote_user="admin"))


async def test_authority_that_is_withdrawn_convinces_no_one(gate: ReviewingGate) -> None:
    scope = request_of(peer=certificate(), x_remote_user="admin")
    gate.adopt(front_proxy())
    await gate.admit(scope)
    gate.adopt(front_proxy(make_authority(NOW)))
    with pytest.raises(AccessRefused):
        await gate.admit(scope)
    gate.adopt(None)
    with pytest.raises(AccessRefused):
        await gate.admit(scope)


def test_front_proxy_tells_groups_uid_and_extra() -> None:
    headers = [
        (b"x-remote-user", b"anna"),
        (b"x-remote-uid", b"7"),
        (b"x-remote-group", b"a"),
        (b"X-Remote-Group", b"b"),
        (b"x-remote-extra-scopes%2fteam", b"x"),
        (b"x-other", b"y"),
    ]
    extra = (("scopes/team", ("x",)),)
    assert front_proxy().caller(headers) == Caller("anna", ("a", "b"), "7", extra)
    assert front_proxy().caller([(b"x-remote-user", b"")]) is None


def test_cluster_without_aggregation_has_no_front_proxy() -> None:
    assert read_front_proxy({}) is None
    assert read_front_proxy({AUTHORITIES: " "}) is None


@pytest.mark.parametrize(
    "wrong",
    [{AUTHORITIES: "x"}, {"requestheader-allowed-names": "{"}, {"requestheader-group-headers": "[1]"}],
)
def test_settings_that_cannot_be_used_are_an_error(wrong: dict[str, str]) -> None:
    with pytest.raises(BadFrontProxy):
        read_front_proxy(published() | wrong)


async def test_open_gate_shows_everything() -> None:
    gate = OpenGate()
    await gate.admit(request_of())
    await gate.demand(request_of(), METRICS)
    assert (await gate.sight(request_of(), lambda: ["lab"])).everything


@pytest.mark.parametrize(
    ("host", "local"),
    [
        *((host, True) for host in ("127.0.0.1", "127.8.8.8", "::1", "localhost")),
        *((host, False) for host in ("0.0.0.0", "::", "", "10.1.2.3", "localhost.evil")),
    ],
)
def test_loopback_is_told_from_other_addresses(host: str, local: bool) -> None:
    assert is_loopback(host) is local


def test_leaf_for_tests_has_the_name_that_the_settings_allow() -> None:
    (name,) = x509.load_der_x509_certificate(certificate()).subject.rfc4514_string().split(",")
    assert name == "CN=fluence"
