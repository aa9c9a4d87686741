"""What-if questions: gangs are planned on a copy of the ledger, now and for the time when running pods have ended."""
