"""Admission of pods: what a pod of ours is given before it exists."""
