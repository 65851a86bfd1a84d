"""What a run has done: the outcome of each item, the numbers, and the writing of both."""
