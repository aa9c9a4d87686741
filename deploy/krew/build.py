"""Build the package for krew: an archive with the launcher, and the manifest with the archive's digest.

    python deploy/krew/build.py FOLDER

The archive has no compression and no times, so that its digest depends only on its content.
"""

from __future__ import annotations

import hashlib
import io
import sys
import zipfile
from pathlib import Path

from fluence_extender import __version__

HERE = Path(__file__).resolve().parent
LICENSE = HERE.parents[1] / "LICENSE"
ARCHIVE = "kubectl-fluence.zip"
EARLIEST = (1980, 1, 1, 0, 0, 0)
MANIFEST = """\
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: fluence
spec:
  version: v{version}
  homepage: https://github.com/converged-computing/fluence-extender
  shortDescription: Select a backend for jobs, ask why gangs wait
  description: |
    Chooses a backend for a job before it is submitted, and answers questions
    about gangs of the fluence scheduler: why one waits, what would fit, which
    gang holds what.
  caveats: |
    Needs Python 3.11 or newer, first on PATH, with fluence-extender {version}:
    "pip install ." in a clone of the repository. No package index has it.
  platforms:
    - selector:
        matchExpressions:
          - key: os
            operator: In
            values: [darwin, linux]
      uri: https://github.com/converged-computing/fluence-extender/releases/download/v{version}/{archive}
      sha256: {digest}
      files:
        - from: kubectl-fluence
          to: .
        - from: LICENSE
          to: .
      bin: kubectl-fluence
"""


def archive() -> bytes:
    """Return the archive."""
    launcher = (HERE / "kubectl-fluence").read_text().replace("VERSION", __version__)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as packed:
        for name, text, mode in (
            ("kubectl-fluence", launcher, 0o755),
            ("LICENSE", LICENSE.read_text(), 0o644),
        ):
            entry = zipfile.ZipInfo(name, EARLIEST)
            entry.create_system = 3
            entry.external_attr = (0o100000 | mode) << 16
            packed.writestr(entry, text)
    return content.getvalue()


def manifest(packed: bytes) -> str:
    """Return the manifest of an archive."""
    digest = hashlib.sha256(packed).hexdigest()
    return MANIFEST.format(version=__version__, archive=ARCHIVE, digest=digest)


def main() -> None:
    """Write both into the folder that the command line names."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    folder.mkdir(parents=True, exist_ok=True)
    packed = archive()
    (folder / ARCHIVE).write_bytes(packed)
    (folder / "fluence.yaml").write_text(manifest(packed))


if __name__ == "__main__":
    main()
