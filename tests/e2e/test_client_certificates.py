"""A webhook that answers reviews of the API server only, which shows its client certificate."""

from __future__ import annotations

import urllib.error
from collections.abc import Iterator

import pytest

from tests.e2e.admission import Admission, environment, quantum, running
from tests.e2e.installation import Installation
from tests.localcluster import ControlPlane
from tests.unit.webhook.reviews import written


@pytest.fixture(scope="module")
def admission(control_plane: ControlPlane, installation: Installation) -> Iterator[Admission]:
    authority = str(control_plane.access.authority_file)
    with running(control_plane, "--client-ca", authority, replicas=1) as admission:
        yield admission


def test_api_server_is_answered_and_other_clients_are_not(admission: Admission) -> None:
    admission.wait_until_called(quantum())
    assert "FLUXION_BACKEND" in environment(admission.tried(quantum()))
    (replica,) = admission.replicas
    with pytest.raises(urllib.error.HTTPError) as refused:
        replica.post("/mutate", written(quantum()))
    assert refused.value.code == 403
    assert "no certificate of the API server" in refused.value.read().decode()
    refused.value.close()
    for path in ("/healthz", "/readyz"):
        assert replica.get(path) == "ok\n"
    assert 'outcome="bad-request"' in replica.get("/metrics")
