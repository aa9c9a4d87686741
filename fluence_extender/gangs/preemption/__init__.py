"""Preemption: choosing gangs of lower priority whose eviction makes room for a gang, and evicting them whole."""
