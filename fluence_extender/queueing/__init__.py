"""The queue: in which order entries are served, when each may start, and what is kept free for those that wait.

An entry is what a user submits: a gang, or a workload that is suspended until its turn. `order` ranks entries, and
nothing else does. `timeline` knows what is free on each node, now and at the start of every reservation. `earliest`
finds the first moment at which an entry fits, `drain` the nodes to empty for an entry that no known end helps, and
`promises` why a start moves. `gangs.queue` puts them together for gangs and the ledger.

Invariant: what is computed here depends on nothing but the entries, the holds, the reservations and the time.

The room does no I/O and imports the values of `model` and numpy alone.
"""
