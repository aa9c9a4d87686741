"""``python -m fluence_extender.apps.sidecar``"""

import sys

from fluence_extender.apps.sidecar.main import main

sys.exit(main())
