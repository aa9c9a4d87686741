"""``kubectl fluence``: chooses backends for what is submitted, and hands the rest to kubectl.

Invariant: this runs on a user's machine with the user's rights. Credentials stay there, networks are used only where a
policy needs them, and documents that ask for nothing reach kubectl byte for byte as they were.
"""
