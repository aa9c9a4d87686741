"""What users read about a gang: Events, conditions, the status of PodGroups, and its history."""
