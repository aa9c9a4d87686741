"""The account of past work in a database: who used what, when, where, and how it ended.

Invariant: the account is never on the path of placement. The service hands over records and goes on; one thread writes
them.
"""
