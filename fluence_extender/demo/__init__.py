"""The product at work on one machine: a cluster, embedded or real, with the service on it, and the examples.

`site` is such a cluster, and `embedded` and `kubernetes` are its two forms. `stack` runs the product's processes on a
control plane, `view` shows gangs, and `run` puts all together.
"""
