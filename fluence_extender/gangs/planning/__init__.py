"""Planning: all decisions of a moment, made by one function of a view of the cluster."""
