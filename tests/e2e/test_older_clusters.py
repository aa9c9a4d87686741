"""The service on a cluster without mutating policies: the webhook has workloads wait without pods, and be born placed.

The tests are those of a cluster with the policies.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.admission import Admission, without_policies
from tests.e2e.installation import Installation
from tests.e2e.test_births import (
    test_crash_changes_no_plan,
    test_job_is_placed_whole_before_its_pods_exist,
    test_replacement_of_a_failed_pod_goes_back_to_its_node,
)
from tests.e2e.test_suspended_operators import played, test_it_waits_without_pods_and_runs_in_its_turn

__all__ = [
    "played",
    "test_crash_changes_no_plan",
    "test_it_waits_without_pods_and_runs_in_its_turn",
    "test_job_is_placed_whole_before_its_pods_exist",
    "test_replacement_of_a_failed_pod_goes_back_to_its_node",
]


@pytest.fixture(scope="module", autouse=True)
def admission(installation: Installation, operators: None) -> Iterator[Admission]:
    """Each of these tests runs without the policies."""
    with without_policies(installation) as admission:
        yield admission
