"""The only room that talks to the API server: watches, reads and writes, behind the port in `port`."""
