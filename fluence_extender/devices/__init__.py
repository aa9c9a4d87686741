"""Devices of dynamic resource allocation: which of them pods may claim, and how many pods a node can host."""
