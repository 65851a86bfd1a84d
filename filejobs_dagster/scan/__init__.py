"""`filejobs scan`: what a bucket holds, and which columns of a database name it; it only reads."""
