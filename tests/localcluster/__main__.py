"""`python -m tests.localcluster` builds the control plane of the tests, unless it is built."""

from __future__ import annotations

import sys

from tests.localcluster import LocalClusterError, ensure_binaries

if __name__ == "__main__":
    try:
        ensure_binaries()
    except LocalClusterError as error:
        sys.exit(str(error))
