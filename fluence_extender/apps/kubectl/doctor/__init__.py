"""``kubectl fluence doctor``: checks everything that an installation needs, and says what to do where it is missing.

Nothing is changed. What the user may not look at is reported as unknown, which is no fault.
"""
