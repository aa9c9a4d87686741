"""Real nodes: the installation of deploy/ on kubelets, containerd and kube-proxy, on one machine.

``python -m tests.nodes`` runs the end-to-end tests on them (see `tests.nodes.__main__`). Everything runs in namespaces
of its own: mounts, network, processes and host name. The first process of these namespaces reaps all others, so the
kernel ends everything when it ends.
"""
