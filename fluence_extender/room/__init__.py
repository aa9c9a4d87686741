"""What each pod holds: exact accounts by node and pod. What is free is what a node has less what its pods hold.

* An *account* belongs to one node: its capacity, the pods that use it, and what is left, in exact amounts.
* An *allocation* belongs to one pod: its node, its devices and its exact requests. Its *strength* is planned, committed
  or bound; in a conflict the stronger allocation keeps its place.

A node on which pods use more than it has is *overcommitted*: its free amounts are below zero, and it takes nothing new.
"""
