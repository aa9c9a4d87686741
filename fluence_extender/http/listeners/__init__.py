"""Addresses, sockets, signals and request bodies, as every listener of ours serves them."""
