"""The four verbs of the scheduler extender protocol: filter, prioritize, bind and preempt."""
