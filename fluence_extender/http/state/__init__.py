"""The state API below ``/v1``: what the service knows, read-only, for people and tools."""
