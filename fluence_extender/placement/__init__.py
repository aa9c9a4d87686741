"""Find one node and devices for each pod of a gang, or the reason why there is no place.

`plan` places a gang on the ledger; `trial` does so as if some pods were gone. `domains` chooses the sets of nodes that
topology constraints allow. Within a set of nodes, `matching` asks a chooser, or searches with `search` and `packing`.
`reasons` and `shortage` explain what is missing.
"""
