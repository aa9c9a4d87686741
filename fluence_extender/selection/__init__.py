"""Choosing one backend for an object before it is submitted: who is there, what each offers, which policy decides.

Invariant: nothing here reads files, runs programs or knows the time; the same values give the same choice, in the same
order, with a reason for each backend that isn't chosen.
"""
