"""Plain values that all rooms share: quantities, resources, nodes, pods, workloads, gangs, assignments, reasons.

Invariant: this room does no I/O, keeps no state and imports no other room. Two values are equal when their fields are.
"""
