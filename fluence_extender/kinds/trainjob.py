"""TrainJobs, of which Kubeflow Trainer makes JobSets (trainer.kubeflow.org/v1alpha1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fluence_extender.kinds import served
from fluence_extender.kinds.kind import Kind
from fluence_extender.kinds.served import Api
from fluence_extender.kinds.workload import Limited, Started, Workload, limits
from fluence_extender.objects.meta import tolerant_decoder


@dataclass(frozen=True, slots=True)
class TrainJob(Workload):
    """A trainer.kubeflow.org TrainJob. The Trainer makes a JobSet of it."""

    api: ClassVar[Api] = served.TRAIN_JOB


_train_job = tolerant_decoder("TrainJob", Limited, Started)


def decode_train_job(raw: bytes) -> TrainJob:
    """Decode a TrainJob."""
    meta, spec, status, problem = _train_job(raw)
    return TrainJob(*meta.identity, **limits(meta, spec, status), problem=problem)


TRAIN_JOBS = Kind(TrainJob, decode_train_job)
