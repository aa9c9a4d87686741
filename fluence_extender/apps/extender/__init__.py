"""The extender: the process that watches the cluster, places gangs and answers kube-scheduler."""
