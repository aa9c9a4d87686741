"""The life of gangs: which pods belong together, when they are placed, how what was begun is ended."""
