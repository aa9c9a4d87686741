"""``fluence-extender``, also ``python -m fluence_extender``: the command line.

Imports take a second, and an interrupt that Python raises meanwhile becomes a traceback, or is lost in a callback of
the import system. So SIGINT ends the process itself until a command has something to clean up, and handles signals.
"""

import signal


def main() -> None:
    """Run the command line."""
    # A program that a shell script starts in the background ignores SIGINT, and goes on to do so.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from fluence_extender.apps.cli import main as command_line

    command_line()


if __name__ == "__main__":
    main()
