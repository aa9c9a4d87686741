"""What-if questions: gangs are planned in a copy of the room, now and for the time when running pods have ended."""
