"""The certificate that a server of ours shows: where it comes from, and how the API server learns to trust it."""
