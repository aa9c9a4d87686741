"""The states of a gang from waiting to bound, and the rules that move it between them."""
