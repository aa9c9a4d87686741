"""Start the interceptor in every Python of the pod, then the user's own sitecustomize, which this one hides.

Python finds this file first because its folder comes first in PYTHONPATH. Any Python can read the file; one older than
3.8 only runs the user's. What the user's own sitecustomize raises goes to the interpreter, as it would without us.
"""

import os
import sys


def _start():  # type: () -> None
    if sys.hexversion < 0x03080000:
        return
    try:
        __import__("fluence_interceptor").start()
    except (Exception, SystemExit):  # the user's program comes first
        if os.environ.get("FLUENCE_INTERCEPTOR_DEBUG"):
            raise


def _pass_on():  # type: () -> None
    folder = os.path.dirname(os.path.abspath(__file__))
    ours = sys.modules.pop(__name__, None)
    path = list(sys.path)
    sys.path[:] = [entry for entry in path if os.path.abspath(entry) != folder]
    hidden = list(sys.path)
    try:
        __import__(__name__)
    except ImportError as error:
        if getattr(error, "name", __name__) != __name__:
            raise
        if ours is not None:
            sys.modules[__name__] = ours
    finally:
        if sys.path == hidden:
            sys.path[:] = path
        else:
            sys.path.insert(0, folder)


_start()
if __name__ == "sitecustomize":
    _pass_on()
