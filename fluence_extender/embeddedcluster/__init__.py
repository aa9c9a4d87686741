"""A whole cluster inside the process, behind the cluster port: no API server, no files, no network."""
