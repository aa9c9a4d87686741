"""The volumes that claims in a JobSet make for its pods."""

from __future__ import annotations

from typing import Any

from fluence_extender.kinds.jobset import job_set_pods


def test_a_claim_of_a_job_set_is_a_volume_of_the_pods_that_mount_it() -> None:
    def replicated(name: str, **container: Any) -> dict[str, Any]:
        pod = {"containers": [{"name": "main", "image": "x", **container}]}
        return {"name": name, "template": {"spec": {"template": {"spec": pod}}}}

    mounts = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    job_set = {
        "metadata": {"name": "set"},
        "spec": {
            "volumeClaimPolicies": [{"templates": [{"metadata": {"name": "data"}, "spec": {}}]}],
            "replicatedJobs": [replicated("with", **mounts), replicated("without")],
        },
    }
    volumes = [pods.template["spec"].get("volumes") for pods in job_set_pods(job_set)]
    assert volumes == [[{"name": "data", "persistentVolumeClaim": {"claimName": "data-set"}}], None]
