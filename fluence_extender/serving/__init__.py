"""HTTP as every listener of ours serves it: addresses, sockets, signals, and bodies within limits."""
