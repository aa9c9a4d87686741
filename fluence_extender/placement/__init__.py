"""From a gang to one node and one set of devices for each pod, or to the reason why not."""
