"""The kinds of objects that make pods: which pods the controller of each kind would create."""
