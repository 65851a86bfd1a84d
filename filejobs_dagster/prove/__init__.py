"""`filejobs prove`: the project's claims, tried beside what they guard from."""
