"""Who holds what: exact accounts by node and pod, and the matcher's bookings that stand for them.

Invariant: what is booked on a node covers the exact use of its pods, or the node is strained and takes nothing new.

The words, from the exact to the approximate. An *account* is one node's: what it has, who uses it, what is left, in
exact amounts. An *allocation* is one pod's: its node, its devices and its exact requests; its *strength* says how
strong it is (planned < committed < bound: the stronger keeps its place in a conflict). A *booking* is the job of the
matcher that stands for an allocation on its node or on its devices, in whole leaves; one more job a node stands for
all pods of others. A *draft* is a booking of devices for a pod that has no allocation yet, made or given up within one
plan. A *deficit* is what others use of a node
and that could not be booked, because its leaves are taken: it is booked as soon as they are free. A *position*
is all of this at one moment, and a *rebuild* makes a graph with the bookings of a position beside the ones in use.
"""
