"""The product at work on one machine: a local control plane, the service, a kube-scheduler and the examples."""
