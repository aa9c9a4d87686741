"""HPC-grade gang placement for any Kubernetes cluster, through the extender hooks of a stock kube-scheduler."""

__version__ = "0.1.0"
