"""Writing decisions to the cluster: actions, the driver, the bind barrier and the write fence."""
