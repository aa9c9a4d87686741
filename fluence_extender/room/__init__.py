"""What each pod holds, and what is free: what a node has less what its pods hold, in exact amounts.

* The *ledger* records what is held. A *room* is the value in which plans are made, which change nothing.
* An *account* belongs to one node: its capacity, the pods that use it, and what is left.
* A *holding* or allocation belongs to one pod: its node, its devices and its requests. Its *firmness* is planned,
  committed or bound; in a conflict the stronger pod keeps its place.

A node on which pods use more than it has is *overcommitted*: its free amounts are below zero, and it takes nothing new.
"""
