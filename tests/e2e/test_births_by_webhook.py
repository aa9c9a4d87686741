"""Jobs, MPIJobs and RayClusters on a cluster without mutating policies: the webhook treats them as the policies do.

The tests are those of the policies, on a control plane from which these are removed, as ``deploy/before-1.36`` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fluence_extender.model.names import NEVER_SUSPEND, NODES_ANNOTATION, SUSPEND_LABEL
from tests.e2e.admission import Admission, without_policies
from tests.e2e.births import Leader, held, ranks, refusal, tried, wait_until_in_force
from tests.e2e.harness import Namespace, wait_for
from tests.e2e.installation import Installation
from tests.e2e.operators import KINDS, installed
from tests.e2e.test_birth_policies import (
    test_indexed_job_waits_without_pods_until_the_leader_names_their_nodes,
    test_job_is_left_alone,
    test_job_keeps_the_labels_and_annotations_that_it_has,
    test_job_of_a_queue_is_suspended_until_its_turn,
    test_job_that_a_cron_job_made_is_suspended,
    test_job_that_grows_beyond_its_nodes_has_the_rest_at_the_gate,
    test_job_that_is_resumed_without_nodes_has_its_pods_at_the_gate,
    test_job_that_is_suspended_again_gets_other_nodes,
    test_pinned_pod_is_marked_for_its_devices_and_stamps,
    test_pod_at_the_gate_is_marked_unless_it_is_only_tried,
    test_pod_gets_its_node_or_the_gate,
    test_pod_with_gates_or_without_job_or_label_gets_the_gate,
    test_pods_of_a_listed_job_wait_at_the_gate,
    test_qpu_job_is_held_and_its_pods_are_pinned_and_marked,
    test_replaced_pod_gets_the_node_of_its_index,
    test_terms_that_a_user_wrote_are_kept_and_confined_to_the_node,
    test_writes_of_the_service_are_what_its_account_may_do,
)
from tests.e2e.test_bound_at_birth import (
    controller,
    test_affinity_that_a_user_wrote_stays_as_it_is,
    test_only_a_plain_pod_of_a_fresh_plan_is_bound_by_its_creation,
    test_pod_that_a_user_creates_like_that_is_not_bound,
    test_pods_that_are_created_later_are_confined_to_their_nodes,
    test_pods_that_are_created_soon_are_bound_by_that,
    test_user_who_resumes_a_job_while_its_plan_binds_is_refused,
)
from tests.e2e.test_suspended_operators import (
    test_nobody_else_writes_why_it_is_suspended,
    test_only_what_names_a_queue_and_is_all_ours_is_suspended,
    test_the_service_may_resume_what_admission_has_suspended_and_nothing_else,
)
from tests.e2e.workloads import ours
from tests.localcluster import Api

__all__ = [
    "controller",
    "test_affinity_that_a_user_wrote_stays_as_it_is",
    "test_indexed_job_waits_without_pods_until_the_leader_names_their_nodes",
    "test_job_is_left_alone",
    "test_job_keeps_the_labels_and_annotations_that_it_has",
    "test_job_of_a_queue_is_suspended_until_its_turn",
    "test_job_that_a_cron_job_made_is_suspended",
    "test_job_that_grows_beyond_its_nodes_has_the_rest_at_the_gate",
    "test_job_that_is_resumed_without_nodes_has_its_pods_at_the_gate",
    "test_job_that_is_suspended_again_gets_other_nodes",
    "test_nobody_else_writes_why_it_is_suspended",
    "test_only_a_plain_pod_of_a_fresh_plan_is_bound_by_its_creation",
    "test_only_what_names_a_queue_and_is_all_ours_is_suspended",
    "test_pinned_pod_is_marked_for_its_devices_and_stamps",
    "test_pod_at_the_gate_is_marked_unless_it_is_only_tried",
    "test_pod_gets_its_node_or_the_gate",
    "test_pod_that_a_user_creates_like_that_is_not_bound",
    "test_pod_with_gates_or_without_job_or_label_gets_the_gate",
    "test_pods_of_a_listed_job_wait_at_the_gate",
    "test_pods_that_are_created_later_are_confined_to_their_nodes",
    "test_pods_that_are_created_soon_are_bound_by_that",
    "test_qpu_job_is_held_and_its_pods_are_pinned_and_marked",
    "test_replaced_pod_gets_the_node_of_its_index",
    "test_terms_that_a_user_wrote_are_kept_and_confined_to_the_node",
    "test_the_service_may_resume_what_admission_has_suspended_and_nothing_else",
    "test_user_who_resumes_a_job_while_its_plan_binds_is_refused",
    "test_writes_of_the_service_are_what_its_account_may_do",
]


@pytest.fixture(scope="module")
def admission(installation: Installation) -> Iterator[Admission]:
    with installed(installation.plane.api, *KINDS), without_policies(installation) as admission:
        yield admission


@pytest.fixture(scope="module")
def leader(admission: Admission, installation: Installation) -> Iterator[Leader]:
    """The service's account, as `tests.e2e.conftest` has it, where the webhook does the work of the policies."""
    installation.usual.stop()
    played = Leader(Api(installation.kubeconfig))
    wait_until_in_force(played, installation.plane.api)
    yield played
    installation.usual.start()


@pytest.fixture(autouse=True)
def by_the_webhook(leader: Leader) -> Any:
    """Each of these tests runs without the policies."""
    return leader


def test_webhook_is_not_called_for_jobs_of_a_namespace_that_opts_out(namespace: Namespace) -> None:
    label = {"metadata": {"labels": {SUSPEND_LABEL: NEVER_SUSPEND}}}
    namespace.api.patch(f"/api/v1/namespaces/{namespace.name}", label)
    wait_for(lambda: not held(tried(namespace, ranks("j", 2))), what="the label to count")
    copied = ranks("j", 2, ours("x", annotations={NODES_ANNOTATION: "n,n"}))
    assert "remove them from the template" in refusal(lambda: tried(namespace, copied))
