"""Telling somebody: what there is to say, an outbox that keeps it until it was said, and sending.

Conditions are a state that is read from the tables, not events that could be missed: whoever looks
next sees what is still wrong. What a destination must be told of them stands in the outbox in the
same transaction in which a condition is opened or closed, and leaves it when the destination has
taken it. A process that dies in between says it once more, never less.
"""
