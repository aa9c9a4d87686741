"""The placement core around a cluster in memory, for tests: a clock that jumps, a small kube-scheduler, invariants."""
