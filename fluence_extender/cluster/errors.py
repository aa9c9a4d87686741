"""The exceptions of this room, and how an answer of the API server becomes one.

Every failure to read or write the cluster is a `ClusterError`:

    ClusterError
      NoAnswer             no answer came; whether the call was carried out isn't known
      BadKubeconfig        there is no usable way to reach a cluster
      ResourcesFileError   a local resources file can't be read
      Unauthenticated      401: the credentials aren't accepted
      Denied               403: a right is missing
      Gone                 404: the object, or the object of that uid, doesn't exist any more
      Conflict             409: the object isn't in the state for which the write was made
        AlreadyBound       the pod is bound to another node
      Expired              410: the resourceVersion or the continue token is too old
      Invalid              422: the API server refuses the content
      TooManyRequests      429, 503: the call may be repeated later
      Disrupted            429 of an eviction: a PodDisruptionBudget forbids it
      PodsUnknown        what the API server would make of a pod can't be found out, or isn't ours to place

`NotLeading` isn't among them: this replica withheld the write, so no call failed.

The API server explains each refusal in a Status object (meta/v1). If a right is missing, its message names the user,
the verb and the resource. The error's text has this message and adds what to do about it.
"""

from __future__ import annotations

import msgspec


class ClusterError(Exception):
    """A call to the API server failed; ``status`` is the HTTP status, 0 if no answer came.

    ``words`` are the API server's own, without what we add to them.
    """

    words: str = ""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class NoAnswer(ClusterError):
    """No answer came (refused, cut off or too late); whether the call was carried out isn't known."""


class BadKubeconfig(ClusterError):
    """There is no usable way to reach a cluster; the message names the file and the fix."""


class ResourcesFileError(ClusterError):
    """The resources file can't be read; the message names the path and the fix."""


class Unauthenticated(ClusterError):
    """The API server doesn't accept the token or certificate: it is wrong or has expired."""


class Denied(ClusterError):
    """The account lacks a right, which the message names."""


class Gone(ClusterError):
    """The object, or the object of that uid, doesn't exist any more."""


class Conflict(ClusterError):
    """The object isn't in the state for which the write was made."""


class AlreadyBound(Conflict):
    """The pod is already bound, to ``node``."""

    def __init__(self, message: str, node: str) -> None:
        super().__init__(message, 409)
        self.node = node


class Expired(ClusterError):
    """The resourceVersion or the continue token is too old (410); a new list is needed."""


class Invalid(ClusterError):
    """The API server refuses the content (422)."""


class TooManyRequests(ClusterError):
    """The API server refused the call for now (429, 503); repeat it after ``retry_after`` seconds."""

    def __init__(self, message: str, status: int, retry_after: float) -> None:
        super().__init__(message, status)
        self.retry_after = retry_after


class Disrupted(ClusterError):
    """A PodDisruptionBudget forbids the eviction for now."""


class PodsUnknown(ClusterError):
    """What the API server would make of a pod can't be found out, or isn't ours to place."""


class NotLeading(Exception):
    """Another replica leads, so the write was not sent or was abandoned; the message says why."""


NAMESPACE_TERMINATING = "NamespaceTerminating"
"""The cause of a refusal to create an object in a terminating namespace (corev1.NamespaceTerminatingCause)."""


class Cause(msgspec.Struct, frozen=True):
    """One cause of a refusal (meta/v1 StatusCause)."""

    reason: str = ""


class Details(msgspec.Struct, frozen=True):
    """The part of meta/v1 StatusDetails that is read."""

    causes: tuple[Cause, ...] = ()


class Status(msgspec.Struct, frozen=True):
    """The part of a meta/v1 Status that is read."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: Details | None = None


_decode_status = msgspec.json.Decoder(Status).decode


def read_status(body: bytes, code: int) -> Status:
    """Return the Status in ``body``; if there is none (a proxy's page), return one with the first 300 characters."""
    try:
        return _decode_status(body)
    except msgspec.MsgspecError:
        return Status(message=body[:300].decode("utf-8", "replace").strip(), code=code)


def error_from(code: int, status: Status, attempt: str, retry_after: float = 1.0) -> ClusterError:
    """Return the error for an answer with the HTTP status ``code``.

    ``attempt`` says what was tried ("bind pod a/b"); ``retry_after`` is in seconds.
    """
    words = status.message or status.reason or "no reason given"
    error = _error(code, status, f"{attempt}: {words} (HTTP {code})", retry_after)
    error.words = words
    return error


def _error(code: int, status: Status, text: str, retry_after: float) -> ClusterError:
    match code:
        case 401:
            return Unauthenticated(
                f"{text}. The API server doesn't accept our credentials: renew the kubeconfig's token or "
                "certificate, or check that the pod's ServiceAccount still exists",
                401,
            )
        case 403 if status.details and any(
            cause.reason == NAMESPACE_TERMINATING for cause in status.details.causes
        ):
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
            return Invalid(text, 422)
        case 429 | 503:
            return TooManyRequests(text, code, retry_after)
        case _:
            return ClusterError(text, code)
