"""The exception of this folder."""


class WrongCommand(Exception):
    """The command can't be what a text tells users to type; the message says why."""
