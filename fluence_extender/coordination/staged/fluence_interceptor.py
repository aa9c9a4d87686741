"""Tag the quantum tasks that this Python submits with the pod that it runs in, and report them to the pod's sidecar.

Libraries are changed when the program imports them. So a program that uses none of them only pays for one dictionary
look-up at each import. Invariants: no exception from here reaches the program. What runs here has half a second, in a
thread of its own; a function that took longer once isn't called again. Without a pod's uid, or without a list of hooks
beside this file, nothing is changed at all.

This runs in the user's image, so it needs Python 3.8 and the standard library only.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

TAG = "fluence-pod-uid"
POD_UID = "FLUENCE_POD_UID"
DEBUG = "FLUENCE_INTERCEPTOR_DEBUG"
LIST = "hooks.txt"
PATIENCE = 0.5
"""Seconds of the program's time that a call of ours may take."""
REPEAT_AFTER = 2.0
REPEATS = 150


class Bounded:
    """Makes calls that end in time and never raise. After one that was late, no more are made."""

    def __init__(self) -> None:
        self.given_up = False

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return what ``function`` returns, or None."""
        if self.given_up:
            return None
        answers: list[Any] = []

        def run() -> None:
            try:
                answers.append(function(*arguments))
            except BaseException as error:
                complain(f"{getattr(function, '__name__', function)}: {error!r}")

        try:
            thread = threading.Thread(target=run, name="fluence", daemon=True)
            thread.start()
            thread.join(PATIENCE)
        except RuntimeError as error:
            complain(f"no thread: {error!r}")
            return None
        if answers:
            return answers[0]
        self.given_up = thread.is_alive()
        return None


class Pod:
    """The pod that this program runs in, and what hooks may do."""

    def __init__(self, uid: str, environ: Mapping[str, str]) -> None:
        self.uid = uid
        self.environ = environ
        self.tag = TAG

    def wrap(
        self,
        owner: Any,
        name: str,
        before: Callable[[Any, Any], Any] | None = None,
        after: Callable[[Any], Any] | None = None,
        refused: Callable[[Exception], bool] | None = None,
    ) -> None:
        """Wrap the function ``owner.name``.

        ``before(args, kwargs)`` returns the arguments to call it with instead, or None. ``after(result)`` gets its
        result. If the call with changed arguments raises, and ``refused(error)`` returns that they are the cause, the
        function is called again with the program's own arguments.
        """
        original = getattr(owner, name)
        bounded = Bounded()

        @functools.wraps(original)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            changed = None if before is None else bounded(before, args, dict(kwargs))
            if changed is None:
                result = original(*args, **kwargs)
            else:
                try:
                    result = original(*changed[0], **changed[1])
                except Exception as error:
                    if refused is None or not bounded(refused, error):
                        raise
                    result = original(*args, **kwargs)
            if after is not None:
                bounded(after, result)
            return result

        setattr(owner, name, wrapped)

    def report(self, task: Any) -> None:
        """Report a task to the sidecar, which listens in the pod's network. Repeat it while nothing listens."""
        if not isinstance(task, str) or not task:
            return
        import json

        message = json.dumps({"pod": self.uid, "task": task}).encode()
        if not self._send(message):
            threading.Thread(target=self._repeat, args=(message,), name="fluence", daemon=True).start()

    def _repeat(self, message: bytes) -> None:
        for _ in range(REPEATS):
            time.sleep(REPEAT_AFTER)
            if self._send(message):
                return

    def _send(self, message: bytes) -> bool:
        # An abstract name (unix(7)), without a file: containers of a pod share it, as they share their network.
        address = "\0fluence-" + self.uid
        import socket

        if not hasattr(socket, "AF_UNIX"):
            return True
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.setblocking(False)
                sender.sendto(message, address)
        except OSError:
            return False
        return True


class Finder:
    """Lets the other finders of ``sys.meta_path`` find a library, and runs its hook once the library is executed."""

    def __init__(self, pod: Pod, hooks: dict[str, list[str]]) -> None:
        self.pod = pod
        self.hooks = hooks
        self.bounded = {name: Bounded() for name in hooks}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return the specification (importlib) of a library with a hook, None for all other modules."""
        if name not in self.hooks:
            return None
        spec = None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is not self and find is not None:
                spec = find(name, path, target)
                if spec is not None:
                    break
        if spec is not None:
            self.prepare(name, spec.loader)
        return spec

    def prepare(self, name: str, loader: Any) -> None:
        """Let ``loader`` run the hook after the module."""
        execute = getattr(loader, "exec_module", None)
        if execute is None or isinstance(loader, type):
            return

        def exec_module(module: Any) -> None:
            execute(module)
            self.install(name, module)

        try:
            loader.exec_module = exec_module
        except Exception as error:
            complain(f"{name}: {error!r}")

    def install(self, name: str, module: Any) -> None:
        """Run the hook of ``name``."""
        self.bounded[name](self._install, name, module)

    def _install(self, name: str, module: Any) -> None:
        for file in self.hooks[name]:
            with open(file, "rb") as source:
                code = compile(source.read(), file, "exec")
            hook: dict[str, Any] = {"__name__": "fluence_hook", "__file__": file}
            exec(code, hook)
            hook["install"](module, self.pod)


def complain(text: str) -> None:
    """Print what went wrong, if the user has turned that on."""
    if os.environ.get(DEBUG):
        try:
            sys.stderr.write(f"[fluence] interceptor: {text}\n")
        except Exception:
            return


def read_list(folder: str) -> dict[str, list[str]]:
    """Return the hooks' files by module, from the list that staging wrote: per line a name, a tab and a file."""
    found: dict[str, list[str]] = {}
    with open(os.path.join(folder, LIST), encoding="utf-8") as lines:
        for line in lines:
            name, tab, file = line.rstrip("\n").partition("\t")
            if tab:
                found.setdefault(name, []).append(os.path.join(folder, "hooks", file))
    return found


def start(environ: Mapping[str, str] = os.environ, folder: str = "") -> Finder | None:
    """Begin to watch imports. Return the finder, or None if there is nothing to do."""
    uid = environ.get(POD_UID, "")
    if not uid:
        return None
    hooks = read_list(folder or os.path.dirname(os.path.abspath(__file__)))
    if not hooks:
        return None
    finder = Finder(Pod(uid, environ), hooks)
    sys.meta_path.insert(0, finder)
    for name in hooks:
        if name in sys.modules:
            finder.install(name, sys.modules[name])
    return finder
