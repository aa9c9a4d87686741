"""Which pods form a gang, how large it has to be, and the state of each member."""
