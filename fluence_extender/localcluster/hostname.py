"""Running a program under a host name of its own, as the containers of a pod do.

kube-scheduler holds its Lease under the host's name, so that two of them on one machine need two names. Linux gives
each process tree its own name in a UTS namespace (uts_namespaces(7)); to make one takes root.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence

from fluence_extender.localcluster.errors import LocalClusterError

NAME_IT = 'echo "$0" > /proc/sys/kernel/hostname && exec "$@"'


def under_hostname(hostname: str, command: Sequence[str]) -> list[str]:
    """The command line that runs ``command`` under ``hostname``. Raises `LocalClusterError`, saying what is lacking."""
    if sys.platform != "linux":
        raise LocalClusterError("a host name of its own for a program needs Linux (UTS namespaces)")
    unshare, shell = shutil.which("unshare"), shutil.which("sh")
    if unshare is None or shell is None:
        raise LocalClusterError("a host name of its own for a program needs unshare(1), part of util-linux")
    if os.geteuid() != 0:
        raise LocalClusterError("a host name of its own for a program needs root (unshare --uts)")
    return [unshare, "--uts", "--", shell, "-c", NAME_IT, hostname, *command]
