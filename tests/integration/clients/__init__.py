"""The same small set of actions on top of three client libraries, so that one test speaks for all of them."""

from __future__ import annotations

from tests.integration.clients.base import CODECS, Client, Outgoing, Read, Refusal
from tests.integration.clients.by_aiokafka import AioKafkaClient
from tests.integration.clients.by_confluent import ConfluentClient
from tests.integration.clients.by_kafka_python import KafkaPythonClient

CLIENTS = (ConfluentClient, AioKafkaClient, KafkaPythonClient)

__all__ = ["CLIENTS", "CODECS", "Client", "Outgoing", "Read", "Refusal"]
