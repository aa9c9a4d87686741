"""The state API below ``/v1``: the state of the service, read-only, for people and tools."""
