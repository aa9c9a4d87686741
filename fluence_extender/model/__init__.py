"""Plain values that every other room speaks in: quantities, resources, nodes, pods, gangs, placements, reasons.

Invariant: nothing here does I/O, keeps state or imports another room; a value is equal to another when its fields are.
"""
