"""The network between a client and the API server, under the control of a test."""
