"""``python -m fluence_extender.coordination``"""

import sys

from fluence_extender.coordination.main import main

sys.exit(main())
