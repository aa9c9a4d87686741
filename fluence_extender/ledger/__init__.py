"""What each pod holds: exact accounts by node and pod, and the matcher's bookings for them.

Invariant: the bookings on a node cover the exact use of its pods, or the node is overcommitted and takes nothing new.

The terms, from the exact to the approximate:

* An *account* belongs to one node: its capacity, the pods that use it, and what is left, in exact amounts.
* An *allocation* belongs to one pod: its node, its devices and its exact requests. Its *strength* is planned, committed
  or bound; in a conflict the stronger allocation keeps its place.
* A *booking* is a job of the matcher, in whole leaves, for an allocation on its node or on its devices. One more job on
  each node is for all foreign pods there.
* A *draft* is a booking of devices for a pod that has no allocation yet. It is made and given up within one plan.
* A *deficit* is the part of the foreign pods' use of a node that couldn't be booked, because the leaves are taken. It
  is booked as soon as they are free.
* A *rebuild* makes another graph with the bookings of the present state, beside the graph in use.
"""
