"""What the dashboard costs, and how fast it is, with a large cluster and many visitors."""
