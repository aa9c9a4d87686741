"""``kubectl fluence``: chooses backends for submitted work, and hands everything else to kubectl.

Invariant: this runs on a user's machine with the user's rights. Credentials stay there, and networks are used only if a
policy needs them. Documents without a request reach kubectl unchanged, byte for byte.
"""
