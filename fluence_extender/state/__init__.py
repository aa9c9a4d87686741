"""The state API's answers, made from the controller's and the books' own values.

Invariants: looking changes nothing; what is made at once is small (an item, a slice of the graph), whatever the size of
the cluster; every list has a revision that differs whenever one of its items does.
"""
