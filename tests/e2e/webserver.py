"""A webserver beside a deployment, and what its API says."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.e2e.deployment import SCRIPTS, free_port, wait_until

if TYPE_CHECKING:
    from tests.e2e.deployment import Deployment

PARTITIONS = """
query Days($set: String!, $repository: RepositorySelector!) {
  partitionSetOrError(repositorySelector: $repository, partitionSetName: $set) {
    __typename
    ... on PartitionSet {
      partitionStatusesOrError {
        __typename
        ... on PartitionStatuses { results { partitionName runStatus } }
      }
    }
  }
}
"""

BACKFILLS = "{ partitionBackfillsOrError { ... on PartitionBackfills { results { id status } } } }"


@dataclass
class Webserver:
    """The web UI of a deployment."""

    port: int

    @classmethod
    def of(cls, deployment: Deployment) -> Webserver:
        port = free_port()
        process = deployment.start(
            [
                str(SCRIPTS / "dagster-webserver"), "-h", "127.0.0.1", "-p", str(port),
                "-w", str(deployment.workspace()),
            ],
            "webserver.log",
        )  # fmt: skip
        webserver = cls(port)

        def answers() -> bool:
            assert process.poll() is None, deployment.log("webserver.log")
            try:
                return webserver.get("/server_info") == 200
            except OSError:
                return False

        wait_until(answers, "the webserver answers", 180)
        return webserver

    def get(self, path: str) -> int:
        """The code of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        connection.request("GET", path)
        code = connection.getresponse().status
        connection.close()
        return code

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        """Ask the API; an error of GraphQL's fails the test."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        body = json.dumps({"query": query, "variables": variables})
        connection.request("POST", "/graphql", body, {"Content-Type": "application/json"})
        document: dict[str, Any] = json.loads(connection.getresponse().read())
        connection.close()
        assert "errors" not in document, document
        data: dict[str, Any] = document["data"]
        return data

    def days(self, job: str) -> dict[str, str]:
        """What the Partitions tab paints: day → status, days without paint left out."""
        data = self.ask(
            PARTITIONS,
            set=f"{job}_partition_set",
            repository={
                "repositoryName": "__repository__",
                "repositoryLocationName": "filejobs",
            },
        )
        results = data["partitionSetOrError"]["partitionStatusesOrError"]["results"]
        return {row["partitionName"]: row["runStatus"] for row in results if row["runStatus"]}

    def backfills(self) -> dict[str, str]:
        """What the Backfills page lists: id → status."""
        data = self.ask(BACKFILLS)
        return {row["id"]: row["status"] for row in data["partitionBackfillsOrError"]["results"]}
