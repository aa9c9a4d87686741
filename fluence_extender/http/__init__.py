"""HTTP in one room: the listeners, the verbs that kube-scheduler calls, and the state API."""
