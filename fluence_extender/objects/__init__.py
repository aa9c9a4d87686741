"""Objects of Kubernetes as values: each class says where in the JSON of the API server its fields are.

`reading` reads any of these classes. A field that can't be read costs only itself, and is named.
"""
