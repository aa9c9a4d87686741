"""The account of past work in a database: who used what, when, where, and how it ended.

Invariant: nothing here is on the path of placement. The service states what happens and goes on; one thread writes it.
"""
