"""Find one node and devices for each pod of a gang, or the reason why there is no place.

`plan` finds places for a gang in a room. `domains` chooses the sets of nodes that topology constraints allow. Within a
set of nodes, `matching` asks a chooser, or searches with `search` and `packing`. `reasons` and `shortage` explain what
is missing.
"""
