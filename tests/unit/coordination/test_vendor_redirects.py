"""Credentials reach the server that a request names, and no other."""

from __future__ import annotations

import pytest

from fluence_extender.coordination.provider import ProviderError
from fluence_extender.coordination.vendor_http import send
from tests.unit.coordination.servers import Call, Reply, serving

SECRET = {"Authorization": "Bearer secret"}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirect_to_another_server_gets_no_request(status: int) -> None:
    stolen: list[Call] = []

    def thief(call: Call) -> Reply:
        stolen.append(call)
        return Reply()

    with serving(thief) as elsewhere:
        moved = Reply(status, headers={"Location": f"{elsewhere}/tasks"})
        with serving(lambda call: moved) as vendor, pytest.raises(ProviderError, match="isn't followed"):
            send("GET", f"{vendor}/tasks", SECRET)
    assert stolen == []


def test_redirect_within_the_server_is_followed() -> None:
    seen: list[Call] = []

    def vendor(call: Call) -> Reply:
        seen.append(call)
        return Reply(302, headers={"Location": "/new"}) if call.path == "/old" else Reply(200, {"id": "1"})

    with serving(vendor) as url:
        assert send("GET", f"{url}/old", SECRET).checked("look") == {"id": "1"}
    assert [(one.path, one.headers["authorization"]) for one in seen] == [
        ("/old", "Bearer secret"),
        ("/new", "Bearer secret"),
    ]
