"""Choosing nodes for equal pods: by first fit over the exact room, or by libreapi_cli in a process of its own."""
