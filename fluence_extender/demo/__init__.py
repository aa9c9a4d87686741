"""The product at work on one machine: a local control plane, the service, a kube-scheduler and the examples.

`view` shows gangs, `stack` runs the product's processes on a control plane, and `run` puts both together.
"""
