"""How fast a cluster schedules with this project, beside the stock kube-scheduler, on a real control plane."""
