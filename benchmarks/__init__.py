"""What the project costs and gains, measured: `make bench`. See docs/sceptics.md."""
