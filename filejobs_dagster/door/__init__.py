"""What every live run proves, whichever job it is.

Begin with `door.py`: a run enters once, before its first claim, and proves again before each batch
what may have changed meanwhile. `guards.py` lists the guards; each, there or in a module of its
own, says which touches (of `collector.py`) it protects. A job gets them by declaring what it
touches.
"""
