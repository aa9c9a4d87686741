"""The values of ``/v1``, which the service sends and its clients read."""
