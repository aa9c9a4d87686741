"""Measure questions to the account of past work over a million jobs."""
