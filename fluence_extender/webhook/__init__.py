"""Admission of pods: what a pod of ours gets before it exists."""
