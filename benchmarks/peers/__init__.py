"""Measure other gang schedulers on this project's own work, all on the same control plane in turn."""
