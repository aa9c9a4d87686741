"""The queue: in which order entries are served, when each may start, and what is kept free for those that wait.

An entry is what a user submits: a gang, or a workload that is suspended until its turn. `order` ranks entries, and
nothing else does. `timeline` knows what is free on each node, now and at the start of every reservation. `earliest`
finds the first moment at which an entry fits, `drain` the nodes to empty for an entry that no known end helps. `engine`
puts them together: a pass over the waiting entries starts what may start and reserves for those that may not.

Invariants: at the start of each reservation, on each node, what running pods hold then and what is reserved then is no
more than the node has. A promised start moves later only for a cause, which is recorded. A pass depends on nothing but
the entries, the holds and the time, so after a restart it decides what it would have decided before.

The room does no I/O and imports the values of `model` and numpy alone.
"""
