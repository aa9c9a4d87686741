"""The dashboard: what ``/v1`` says, as pages for a browser.

It is a process of its own and a client of ``/v1``. It shows state and asks what-if questions, so it can neither slow
nor break scheduling. The parts, from the outside in: `command` starts it, `app` has the addresses, `pages` make HTML of
the rows that `views` make of JSON, and `poller` keeps the newest state, which it reads through `service`.

Invariant: text from the cluster is only ever text. Elements are made by htpy, which escapes everything, and the browser
runs no script and loads no file that isn't in this package.
"""
