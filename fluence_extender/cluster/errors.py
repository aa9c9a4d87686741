"""From an answer of the API server to a typed error whose text says what to do about it.

The API server explains every refusal in a Status object (meta/v1); its message names user, verb and resource
when a right is missing. That text is kept, and the fix is added where there is one.
"""

from __future__ import annotations

import msgspec

from fluence_extender.cluster.port import ClusterError, Conflict, Denied, Gone


class NoAnswer(ClusterError):
    """No answer came (refused, cut or too late): whether the call was carried out is not known."""


class Unauthenticated(ClusterError):
    """The API server doesn't know us: the token or certificate is wrong or has expired."""


class BadKubeconfig(ClusterError):
    """There is no usable way to reach a cluster; the message names the file and the fix."""


class Busy(ClusterError):
    """The API server turned the call away for now (429, 503); ``retry_after`` in seconds."""

    def __init__(self, message: str, status: int, retry_after: float) -> None:
        super().__init__(message, status)
        self.retry_after = retry_after


class Invalid(ClusterError):
    """The API server understood and refuses (422); ``fields`` are the paths it objects to."""

    def __init__(self, message: str, fields: tuple[str, ...]) -> None:
        super().__init__(message, 422)
        self.fields = fields


class Expired(ClusterError):
    """The resourceVersion or continue token is too old (410): list anew."""


ENDING = "NamespaceTerminating"
"""The cause of a refusal to create anything in a namespace that is being deleted (corev1.NamespaceTerminatingCause)."""


class Cause(msgspec.Struct, frozen=True):
    """One field that was refused, or another cause (StatusCause)."""

    field: str = ""
    reason: str = ""
    message: str = ""


class Details(msgspec.Struct, frozen=True):
    """The part of StatusDetails that is read."""

    causes: tuple[Cause, ...] = ()
    retry_after: int = msgspec.field(name="retryAfterSeconds", default=0)


class Status(msgspec.Struct, frozen=True):
    """The part of a meta/v1 Status that is read."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: Details | None = None


_decode_status = msgspec.json.Decoder(Status).decode


def read_status(body: bytes, code: int) -> Status:
    """The Status in ``body``; an answer that is none (a proxy's page) becomes one with its first 300 characters."""
    try:
        return _decode_status(body)
    except msgspec.MsgspecError:
        return Status(message=body[:300].decode("utf-8", "replace").strip(), code=code)


def error_from(code: int, status: Status, attempt: str, retry_after: float = 1.0) -> ClusterError:
    """The error for an answer with HTTP status ``code``; ``attempt`` says what was tried ("bind pod a/b")."""
    text = f"{attempt}: {status.message or status.reason or 'no reason given'} (HTTP {code})"
    match code:
        case 401:
            return Unauthenticated(
                f"{text}. The API server doesn't accept our credentials: renew the kubeconfig's token or "
                "certificate, or check that the pod's ServiceAccount still exists",
                401,
            )
        case 403 if any(cause.reason == ENDING for cause in _causes(status)):
            return Gone(text, 403)
        case 403:
            return Denied(
                f"{text}. Grant that verb in a Role or ClusterRole bound to the account named",
                403,
            )
        case 404:
            return Gone(text, 404)
        case 409:
            return Conflict(text, 409)
        case 410:
            return Expired(text, 410)
        case 422:
            return Invalid(text, tuple(cause.field for cause in _causes(status)))
        case 429 | 503:
            return Busy(text, code, retry_after)
        case _:
            return ClusterError(text, code)


def _causes(status: Status) -> tuple[Cause, ...]:
    return status.details.causes if status.details else ()
