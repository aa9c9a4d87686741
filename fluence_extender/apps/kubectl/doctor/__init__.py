"""``kubectl fluence doctor``: look at all that an installation needs, and say what to do where something is missing.

`snapshot` reads what there is, with the user's own rights. `checks` are plain functions of that. Nothing is changed.
What the user may not look at is reported as unknown, which is no fault.
"""
