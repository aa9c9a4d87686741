"""Decode the API server's JSON into the model's values: one module for each kind, or for kinds that belong together.

These are the kinds whose values are computed from many fields. The others are in `fluence_extender.objects`.

msgspec decodes only the fields that are read and skips the others without building them. Nulls are allowed wherever the
API server may leave a field empty. Invariant: no object stops the watch of the others. An object with a field that
can't be read is decoded with its other fields, its ``problem`` says why, and so does the log, once.

| kind | while the object has a ``problem`` |
|---|---|
| Pod | its gang isn't placed, for that reason; once bound, it counts with what can be read of its requests |
| Node | no pod is placed there; what runs there still counts |
| Job, PodGroup and other workloads | the size of their gangs isn't known, so these wait, for that reason |

The ConfigMap of resources.yaml is the only object of its watch. If it can't be read, the resources in force stay.
"""
