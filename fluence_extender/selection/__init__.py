"""Choose one backend for an object before it is submitted.

    request      what the object's annotations ask for
    offers, attributes_file, providers
                 what is known of backends, and from where
    policy, steps
                 the policy, read as steps; each step keeps some backends
    pipeline     from all of these to one `Selection`
    record       the choice as an annotation

Invariant: nothing here reads files, runs programs or knows the time. The same values give the same choice, with a
reason for each backend that isn't chosen.
"""
