"""Which pods form a gang, how large it has to be, and what is known of each member."""
