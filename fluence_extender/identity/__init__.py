"""The certificate of a server of ours: where it comes from, and how the API server learns to trust it."""
