"""The audit log: hash chains of canonical JSON events.

`append` adds events, from any language by the SQL function below it. `seal` states where a chain
has reached, signs that, and copies it outside of the database (`pins`). `verify` says what was
changed, what is missing, and what nobody can know. `trim` removes the oldest events with a
receipt, past no hold (`holds`). `restore` acknowledges a database that came back from a backup.
`offline` checks what `prove` makes, without any other file of ours.
"""
