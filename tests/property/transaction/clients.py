"""Transactional producers as their protocols make them: one request under way, repeated when no answer comes, on a new
connection, while the old frame may still arrive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moldau.core.transaction.commands import AddPartitions, EndTransaction, InitProducerId, KeptReply
from moldau.model.errors import ErrorCode, Refused
from tests.property.transaction.world import TIMEOUT_MS, Label, World

RETRY = frozenset({"CONCURRENT_TRANSACTIONS"})
ABORT = frozenset({"TRANSACTION_ABORTABLE", "OUT_OF_ORDER_SEQUENCE_NUMBER"})


class Client:
    """Runs transaction after transaction until it is fenced or told to stop."""

    def __init__(self, world: World, number: int, name: str, *, v2: bool) -> None:
        self.world = world
        self.number = number
        self.name = name
        self.v2 = v2
        self.who = (-1, -1)
        self.alive = True
        self.stopping = False
        self.txn = 0
        self.sequences: dict[int, int] = {}
        self.added: set[int] = set()
        self.written = 0
        self.acked: dict[Label, set[Any]] = {}
        self.outcome: dict[Label, str] = {}
        """committed, aborted, unknown; absent while open."""
        self.connection = world.connect()
        self._request: Callable[[int, Callable[[Any], None]], None] | None = None
        self._answered: Callable[[Any], None] | None = None
        self._ticket = 0
        self._init()

    @property
    def label(self) -> Label:
        return (self.number, self.txn)

    # -- requests ----------------------------------------------------------------------------------------------------

    def request(self, send: Callable[[int, Callable[[Any], None]], None], answered: Callable[[Any], None]) -> None:
        """`send` is given the connection and where the answer goes; it may be called again."""
        self._ticket += 1
        self._request, self._answered = send, answered
        self._transmit()

    def _transmit(self) -> None:
        ticket, connection, request = self._ticket, self.connection, self._request
        assert request is not None

        def answer(reply: Any) -> None:
            if ticket == self._ticket and connection == self.connection and self._answered is not None:
                answered, self._answered = self._answered, None
                answered(reply)

        self.world.send(connection, lambda: request(connection, answer))

    def lose_patience(self) -> None:
        """No answer, or a broken connection: the same request again, on a new one."""
        if self._answered is not None:
            self.connection = self.world.connect()
            self._transmit()

    # -- the life of a producer --------------------------------------------------------------------------------------

    def _init(self, expected: tuple[int, int] = (-1, -1)) -> None:
        command = InitProducerId(self.name, TIMEOUT_MS, *expected)

        def answered(reply: Any) -> None:
            if isinstance(reply, Refused):
                self._refused(reply.code, lambda: self._init(expected))
                return
            self.who = tuple(reply)
            self.sequences.clear()
            self._begin()

        self.request(self._beginning(command), answered)

    def _beginning(self, command: InitProducerId) -> Callable[[int, Callable[[Any], None]], None]:
        """As the server asks it of the core (`server/handlers/init_producer_id.py`)."""

        def send(connection: int, answer: Callable[[Any], None]) -> None:
            newest = self.world.next_connection
            self.world.ask(command._replace(connection=connection, newest_connection=newest), answer)

        return send

    def _begin(self) -> None:
        if self.stopping:
            return
        self.txn += 1
        self.added.clear()
        self.written = 0
        self.acked[self.label] = set()
        self._step()

    def _step(self) -> None:
        """The next thing to do in this transaction."""
        chance = self.world.random
        if self.written >= 1 and chance.random() < 0.4:
            self._end(commit=chance.random() < 0.6)
            return
        index = chance.randrange(len(self.world.partitions))
        if not self.v2 and index not in self.added:
            self._add(index)
        else:
            self._produce(index)

    def _add(self, index: int) -> None:
        keys = frozenset({self.world.partitions[index].key})
        who = self.who

        def send(connection: int, answer: Callable[[Any], None]) -> None:
            known = 0 if "late requests are believed" in self.world.bugs else connection
            self.world.ask(AddPartitions(self.name, *who, keys, connection=known), answer)

        def answered(reply: Any) -> None:
            if isinstance(reply, Refused):
                self._refused(reply.code, lambda: self._add(index))
                return
            self.added.add(index)
            self._produce(index)

        self.request(send, answered)

    def _produce(self, index: int) -> None:
        record = (*self.label, self.written)
        self.written += 1
        sequence, who, label = self.sequences.get(index, 0), self.who, self.label

        def send(connection: int, answer: Callable[[Any], None]) -> None:
            self.world.produce(self.name, who, self.v2, index, sequence, record, answer)

        def answered(code: ErrorCode) -> None:
            if code is ErrorCode.NONE:
                self.acked[label].add(record)
                self.sequences[index] = sequence + 1
                self._step()
            elif code.name in RETRY:
                self.request(send, answered)
            else:
                self._refused(code, None)

        self.request(send, answered)

    def _end(self, *, commit: bool, then_init: bool = False) -> None:
        who, label = self.who, self.label
        self.outcome[label] = "unknown" if commit else "aborted"

        def send(connection: int, answer: Callable[[Any], None]) -> None:
            known = 0 if "late requests are believed" in self.world.bugs else connection
            command = EndTransaction(self.name, *who, commit, bumps_epoch=self.v2, connection=known)
            self.world.ask(command, answer)

        def answered(reply: Any) -> None:
            if isinstance(reply, Refused):
                if reply.code.name in RETRY:
                    self.request(send, answered)
                else:
                    if reply.code is ErrorCode.INVALID_TXN_STATE and commit:
                        self.outcome[label] = "aborted"  # it certainly was not committed
                    self.alive = False
                return
            if commit:
                self.outcome[label] = "committed"
            if self.v2:
                self.who = tuple(reply)
                self.sequences.clear()
            if then_init and not self.v2:
                self._init(self.who)
            else:
                self._begin()

        self.request(send, answered)

    def _refused(self, code: ErrorCode, repeat: Callable[[], None] | None) -> None:
        if code.name in RETRY and repeat is not None:
            repeat()
        elif code.name in ABORT:
            self._end(commit=False, then_init=True)
        else:
            self.alive = False  # fenced
            self.outcome.setdefault(self.label, "aborted")


class TwoPhaseClient(Client):
    """Its transactions are ended by somebody else, who first takes each of them over (KIP-939). What was taken over and
    decided must come true, whatever time passes in between.

    As with a sink, writer and driver are two processes with a connection each, and the driver's is usually the older
    one: so the age of their connections says nothing about which of the two spoke last."""

    def __init__(self, world: World, number: int, name: str, *, v2: bool) -> None:
        self._decided: Callable[[], None] | None = None
        self._driving = False
        self._other_connection = world.connect()
        """The driver's while the writer speaks, and the other way round."""
        super().__init__(world, number, name, v2=v2)

    def _speak(self, *, driving: bool) -> None:
        if driving is not self._driving:
            self.connection, self._other_connection = self._other_connection, self.connection
            self._driving = driving

    def _init(self, expected: tuple[int, int] = (-1, -1)) -> None:
        self._speak(driving=False)
        super()._init(expected)

    def _end(self, *, commit: bool, then_init: bool = False) -> None:
        if then_init:
            super()._end(commit=commit, then_init=True)
        else:
            self._take_over(self.who, commit)

    def _take_over(self, writer: tuple[int, int], commit: bool) -> None:
        self._speak(driving=True)
        label = self.label
        command = InitProducerId(self.name, TIMEOUT_MS, two_phase=True, keep=True)

        def answered(reply: Any) -> None:
            if isinstance(reply, Refused):
                assert reply.code.name in RETRY, reply
                self._take_over(writer, commit)
            elif isinstance(reply, KeptReply) and reply[2:] == writer:
                self.outcome[label] = "committed" if commit else "aborted"
                self._decided = lambda: self._finish(reply[:2], writer, commit)
            elif label not in self.outcome:
                self.outcome[label] = "aborted"  # it timed out before
                self._init()
            else:
                self._init()  # a late copy of the end has come through

        self.request(self._beginning(command), answered)

    def lose_patience(self) -> None:
        """Time passes between decision and end."""
        if self._decided is not None and self.world.random.random() < 0.3:
            decided, self._decided = self._decided, None
            decided()
        super().lose_patience()

    def _finish(self, speaker: tuple[int, int], writer: tuple[int, int], commit: bool) -> None:
        command = EndTransaction(self.name, *speaker, commit, bumps_epoch=self.v2)

        def send(connection: int, answer: Callable[[Any], None]) -> None:
            self.world.ask(command._replace(connection=connection), answer)

        def answered(reply: Any) -> None:
            if not isinstance(reply, Refused):
                self._init()
            elif reply.code.name in RETRY:
                self._finish(speaker, writer, commit)
            else:
                self._take_over(writer, commit)  # a late copy of the last request to take over has come through

        self.request(send, answered)
