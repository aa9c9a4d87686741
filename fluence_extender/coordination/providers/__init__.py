"""The providers that come with this package."""
