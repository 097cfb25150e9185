"""Alpha of a run on a cluster: the parts of each round write it to files of their own."""
