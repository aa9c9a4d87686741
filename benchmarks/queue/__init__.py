"""Benchmarks of the queue: what its decisions are worth, and what they cost."""
