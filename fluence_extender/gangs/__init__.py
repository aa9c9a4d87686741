"""The life of gangs: which pods belong together, when they are placed, and how they are completed or undone."""
