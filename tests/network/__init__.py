"""The network between a client and the API server, in the hands of a test."""
