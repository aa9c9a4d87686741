"""What users read about a gang: events, conditions, PodGroup status and its history."""
