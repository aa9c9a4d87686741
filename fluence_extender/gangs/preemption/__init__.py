"""Preemption: choosing gangs of lower priority to evict in favor of a gang without a place, and evicting them whole."""
