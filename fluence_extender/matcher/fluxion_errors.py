"""fluxion_ffi's errors as the port's; errno and message stay."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import fluxion_ffi as fluxion
from fluence_extender.matcher.errors import (
    Busy,
    EngineUnavailable,
    InvalidGraph,
    InvalidJobspec,
    InvalidOptions,
    JobExists,
    MatcherError,
    NothingToAllocate,
    UnknownJob,
    Unsatisfiable,
)

_MEANING: dict[type[fluxion.FluxionError], type[MatcherError]] = {
    fluxion.ResourcesBusy: Busy,
    fluxion.Unsatisfiable: Unsatisfiable,
    fluxion.NothingToAllocate: NothingToAllocate,
    fluxion.InvalidRequest: InvalidJobspec,
    fluxion.InvalidGraph: InvalidGraph,
    fluxion.InvalidOptions: InvalidOptions,
    fluxion.NotFound: UnknownJob,
    fluxion.JobExists: JobExists,
    fluxion.FeatureMissing: EngineUnavailable,
}


@contextmanager
def translated() -> Iterator[None]:
    """Raise the port's error for every `FluxionError` raised inside."""
    try:
        yield
    except fluxion.FluxionError as error:
        raise translation(error) from error


def translation(error: fluxion.FluxionError) -> MatcherError:
    """The port's error for one of the library's."""
    return _MEANING.get(type(error), MatcherError)(str(error), error.errno)
