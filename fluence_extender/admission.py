"""The webhook's composition root."""
