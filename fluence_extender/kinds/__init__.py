"""The kinds of workloads: a module for each.

It has the values of a kind and their decoder, the size of the gang and its members, the pods that a controller would
make, and the field that suspends an object. `registry.KINDS` lists all kinds.
"""
