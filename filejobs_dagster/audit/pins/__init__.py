"""Pins: copies of the chain's seals and receipts where the database's owner cannot change them."""
