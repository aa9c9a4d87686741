"""``python -m fluence_extender``: the command line."""

from fluence_extender.apps.cli import main

if __name__ == "__main__":
    main()
