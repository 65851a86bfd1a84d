"""Object storage: reach it, name and measure objects, and delete them through the one gate."""
