"""The scripted server and our own client, as the tests of object storage have them."""

from tests.objects.conftest import client, scripted, scripted_client, versioned_bucket

__all__ = ["client", "scripted", "scripted_client", "versioned_bucket"]
