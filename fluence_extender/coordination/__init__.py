"""Quantum and classical pods that start together: what runs beside and inside the pods of a shared job.

The producer submits a quantum task and waits in a vendor's queue, perhaps for hours. Its consumers wait behind a
scheduling gate and use nothing in the meantime. The interceptor (``staged``) tags the task with the producer's pod. The
sidecar finds the task by that tag through a provider, and removes the gates when the task is about to run. After any
failure, consumers start early rather than never.
"""
