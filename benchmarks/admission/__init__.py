"""Measure how fast queues with quotas admit Jobs, and what that costs, beside Kueue."""
