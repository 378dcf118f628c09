"""What the options of reads and writes have in common: their names, where the broker is, telling every mistake."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from moldau.client.cluster import parse_bootstrap
from moldau.config.mistakes import nearest
from moldau.model.failures import MoldauError
from moldau.model.quantities import in_unit_of
from moldau.spark.option_values import parse_boolean

T = TypeVar("T")


class OptionsWrong(MoldauError, ValueError):
    """The options of a read or a write cannot be used. Carries every mistake that was found."""

    def __init__(self, mistakes: list[str]) -> None:
        self.mistakes = tuple(mistakes)
        if len(mistakes) == 1:
            text = mistakes[0]
        else:
            text = f"{len(mistakes)} mistakes in the options:\n" + "\n".join(f"  - {line}" for line in mistakes)
        super().__init__(text)


class OptionReader:
    """Takes options one by one, in any case, and gathers what is wrong with them."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.mistakes: list[str] = []
        self.options: dict[str, str] = {}
        for name, value in options.items():
            self._read(name, value)

    def _read(self, name: str, value: str) -> None:
        """`kafka.request.timeout.ms` takes `30s` as well: whatever reads the client's settings wants bare numbers."""
        try:
            is_client = name.lower().startswith("kafka.")
            self.options[name.lower()] = in_unit_of(name, value) if is_client else value
        except ValueError as mistake:
            self.mistakes.append(f"option {name}: {mistake}")

    def take(self, name: str, read: Callable[[str], T]) -> T | None:
        text = self.options.get(name.lower())
        if text is None:
            return None
        try:
            return read(text)
        except ValueError as mistake:
            self.mistakes.append(f"option {name}: {mistake}")
            return None

    def boolean(self, name: str, default: bool) -> bool:
        value = self.take(name, parse_boolean)
        return default if value is None else value

    def client(self, refused: Mapping[str, str]) -> dict[str, str]:
        """kafka.* without the prefix. `refused`: what nobody may set, and why."""
        client = {name[len("kafka.") :]: value for name, value in self.options.items() if name.startswith("kafka.")}
        for name, instead in refused.items():
            if name in client:
                self.mistakes.append(f"option kafka.{name} has no place here: {instead}")
        protocol = client.get("security.protocol", "PLAINTEXT")
        if protocol.upper() != "PLAINTEXT":
            self.mistakes.append(
                f"option kafka.security.protocol: {protocol} is not supported yet, only PLAINTEXT is. "
                "Connect through a PLAINTEXT listener"
            )
        return client

    def bootstrap(self, client: Mapping[str, str]) -> str:
        given = client.get("bootstrap.servers") or self.options.get("bootstrap")
        if not given:
            near = nearest("kafka.bootstrap.servers", self.options)
            meant = f" ('{near}' is none of the options)" if near else ""
            self.mistakes.append(
                f"option kafka.bootstrap.servers is missing{meant}: say where a broker is, as HOST:PORT"
            )
            return ""
        # Kafka's own client lets listeners be copied from a broker's settings, protocol and all.
        bare = ",".join(part.strip().removeprefix("PLAINTEXT://") for part in given.split(","))
        try:
            if "://" in bare:
                raise ValueError(f"'{given}' is not HOST:PORT")
            parse_bootstrap(bare)
        except ValueError as mistake:
            self.mistakes.append(f"option kafka.bootstrap.servers: {mistake}")
        return bare
