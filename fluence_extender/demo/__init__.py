"""The product at work on one machine: an embedded cluster with the service on it, and the examples.

`embedded` is the cluster, `view` shows its gangs, and `run` puts both together.
"""


class DemoError(Exception):
    """The demo can't go on; the message says why."""
