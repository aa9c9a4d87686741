"""A cluster in one process: an API server's rules on the model's values, and small players of its other components.

`cluster` is the API server behind the cluster port, `session` what an extender opens, `admission` and `workloads` turn
manifests into pods, `kubelets` run them, and `kube_scheduler` schedules them with the extender's verbs.
"""
