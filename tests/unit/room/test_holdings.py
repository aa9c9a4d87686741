"""The account of one node."""

from __future__ import annotations

import pytest

from fluence_extender.model.pod import HostPort
from fluence_extender.model.resources import NOTHING
from fluence_extender.room.holdings import NodeAccount, ports_clash
from tests.core.values import asks

WHOLE = asks(4000, 8, pods=10)


def ports(account: NodeAccount) -> tuple[HostPort, ...]:
    """Return the host ports in use."""
    return account.ports


def test_adding_and_removing_a_pod_leaves_the_account_as_it_was() -> None:
    account = NodeAccount("n", WHOLE)
    account.add("ours", asks(1000, 1), foreign=False, ports=(HostPort(80),))
    account.add("theirs", asks(500), foreign=True)
    assert account.free == WHOLE - asks(1000, 1) - asks(500)
    assert account.foreign_use == asks(500)
    assert ports(account) == (HostPort(80),)
    account.remove("ours")
    account.remove("theirs")
    assert (account.free, account.foreign_use, ports(account)) == (WHOLE, NOTHING, ())
    assert not account.users


def test_adding_again_counts_the_new_requests_only() -> None:
    account = NodeAccount("n", WHOLE)
    account.add("a", asks(1000), foreign=True, ports=(HostPort(80),))
    account.add("a", asks(3000), foreign=False)
    assert account.free == WHOLE - asks(3000)
    assert account.foreign_use == NOTHING
    assert account.ports == ()


def test_removing_an_unknown_pod_changes_nothing() -> None:
    account = NodeAccount("n", WHOLE)
    account.remove("nobody")
    assert account.free == WHOLE


def test_free_goes_below_zero_when_a_node_shrinks_and_comes_back() -> None:
    account = NodeAccount("n", WHOLE)
    account.add("a", asks(3000), foreign=False)
    account.resize(asks(1000, 8, pods=10))
    assert account.free["cpu"] == -2000
    assert not account.takes(asks(100))
    account.resize(WHOLE)
    assert account.free == WHOLE - asks(3000)


def test_pod_fits_by_free_amounts_and_by_ports() -> None:
    account = NodeAccount("n", asks(1000, pods=1))
    assert account.takes(asks(1000), (HostPort(80),))
    assert not account.takes(asks(1001))
    account.add("web", NOTHING, foreign=True, ports=(HostPort(80),))
    assert account.takes(asks(1000), (HostPort(81),))
    assert not account.takes(asks(1000), (HostPort(80),))


@pytest.mark.parametrize(
    ("one", "other", "clash"),
    [
        (HostPort(80), HostPort(80), True),
        (HostPort(80), HostPort(81), False),
        (HostPort(80, "TCP"), HostPort(80, "UDP"), False),
        (HostPort(80, "TCP", "10.0.0.1"), HostPort(80, "TCP", "10.0.0.2"), False),
        (HostPort(80, "TCP", "10.0.0.1"), HostPort(80, "TCP", "10.0.0.1"), True),
        (HostPort(80, "TCP", "10.0.0.1"), HostPort(80), True),
        (HostPort(80), HostPort(80, "TCP", "10.0.0.1"), True),
    ],
)
def test_ports_clash_on_equal_or_any_address(one: HostPort, other: HostPort, clash: bool) -> None:
    assert ports_clash((one,), (other,)) is clash
