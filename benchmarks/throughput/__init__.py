"""Measure how fast a cluster schedules with this project and with the stock kube-scheduler, on a real control plane."""
