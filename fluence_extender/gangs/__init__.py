"""The life of gangs: which pods belong together, when they are placed, and that what was begun is finished or undone."""
