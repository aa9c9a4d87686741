"""The queue: in which order entries are served, when each may start, and what is kept free for those that wait.

An entry is what a user submits: a gang, or a workload that is suspended until its turn. Only `entry.rank` ranks
entries. `timeline` has what is free on each node, now and at the start of every reservation. `earliest` finds the first
moment at which an entry fits, and the nodes to drain for an entry that no known end helps. `quota` is the tree of
queues, and `shares` says which queue is served next. `gangs.queue` puts them together for gangs and the ledger.

Invariant: results depend only on the entries, the holds, the reservations and the time.

The package does no I/O. It imports only the values of `model` and numpy.
"""
