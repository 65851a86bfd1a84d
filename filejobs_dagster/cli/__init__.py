"""The command `filejobs`: one module per command, imported only when it is called."""
