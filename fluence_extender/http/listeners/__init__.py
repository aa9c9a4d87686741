"""Addresses, sockets, signals and request bodies, for all listeners of ours."""
