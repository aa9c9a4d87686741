"""The sidecar of a pod that submits a quantum task: its process, and the small programs that go with it."""
