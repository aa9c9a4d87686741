"""What the API server adds to an object that is created, and why it refuses one. Questions and demos need both."""
