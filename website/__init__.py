"""The documentation site: docs/ as mkdocs builds it, and the pages of reference that are made from the code."""
