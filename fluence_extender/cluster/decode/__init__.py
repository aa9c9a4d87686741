"""Decode the API server's JSON into the model's values: one module for each kind, or for kinds that belong together.

msgspec decodes only the fields that are read and skips the others without building them. Nulls are allowed wherever the
API server may leave a field empty. Invariant: an object that the API server sent never stops a watch. An object whose
fields can't be read is decoded with its identity and with defaults, and the log says why.
"""
