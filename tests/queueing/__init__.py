"""What tests and benchmarks of the queue share: jobs, workloads, a planner, a reference to compare with."""
