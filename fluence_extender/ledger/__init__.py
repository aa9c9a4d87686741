"""Who holds what: exact accounts by node and pod, mirrored into the matcher.

Invariant: what is booked on a node covers the exact use of its pods, or the node carries an explicit deficit
and takes nothing new.
"""
