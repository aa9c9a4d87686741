"""Which replica writes, and how it takes over: lease, stand-by, replay and audit."""
