"""From a gang to a node and devices for each of its pods, or to the reason why there is no place.

`plan` places a gang on the ledger; `trial` does so as if some pods were gone. Within a set of nodes `matching` asks the
matcher or searches with `search` and `packing`; `domains` chooses the sets of nodes that topology constraints allow.
`reasons` and `shortage` explain what is missing.
"""
