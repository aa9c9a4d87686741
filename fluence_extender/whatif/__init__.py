"""What would happen if: gangs planned on a copy of the ledger, now and as running pods end. Nothing real is changed."""
