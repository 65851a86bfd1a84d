"""Does everything that the jobs need answer? Each check only looks; none changes anything."""
