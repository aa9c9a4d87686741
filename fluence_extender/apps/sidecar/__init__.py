"""The sidecar's process, and the small programs that go with it: staging and the mock backend."""
