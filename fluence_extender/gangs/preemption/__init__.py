"""Choosing gangs of lower priority that make room for a gang, and evicting them whole."""
