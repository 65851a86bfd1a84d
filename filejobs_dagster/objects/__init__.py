"""Object storage: reach it, name and measure objects, and delete them through the one gate.

Begin with `gate.py`: whatever deletes bytes passes it. `judgement.py` asks the last question
before a request goes; `sending`, `removing`, `purging`, `quarantine` and `multipart/aborting` carry
it out, and are the gate's alone. `listing/` and `heads.py` only look, and `identity.py` says
whether two looks saw the same object.
"""
