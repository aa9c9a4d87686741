"""The resource graph: nodes and resources.yaml as a containment tree, its JGF documents, and its devices."""
