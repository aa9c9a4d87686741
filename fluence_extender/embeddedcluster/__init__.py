"""A cluster in memory behind the cluster port: no API server, no files, no network."""
