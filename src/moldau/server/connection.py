"""One client connection: bytes in, requests in order, replies in the same order, bytes out.

Compiled. Shaped like `asyncio.BufferedProtocol` (uvloop fills a read buffer shared by all connections) and like
`asyncio.Protocol` (stock asyncio, the simulator), inheriting from neither.

Reading. Whole small frames are handled straight from what was read. A frame above `BIG_FRAME_BYTES` that is not
complete is received into a pooled buffer of its own, charged to the node's budget as it fills. A big frame that is
complete in the shared buffer is handled there, without a copy. Behind a frame larger than the shared buffer another
such one is likely, so only a little of it is read there, to be copied to its own buffer.

Replies. While every answer comes at once, replies are encoded into one writer and leave with the tick. An answer that
comes later (`Parked`, a coroutine) takes a `PendingReply` in `pending`; later replies queue behind it. Requests behind
a parked one are handled meanwhile (a pipelining producer gains from group commit); requests behind a coroutine wait for
it, as everything waits in Kafka, so that an admin call's effect is seen by what follows it. A fetch waits until it is
first in line: its answer may be long, and would lie in memory until its turn.

Leaving. Replies leave through the transport; those that contain ranges of files, and whatever follows while these are
under way, through a `Sender`.

Holding. Reading stops while any bit of `held` is set: replies pile up in the transport, in the sender or already before
them (one read may hold thousands of fetches), a coroutine runs, too many or too long replies are pending, or the memory
budget is used up. A peer that does not take its replies is told to the node's reply budget (`clog`). What was read
already waits in `rest`. So it does after a turn (`TURN_S`, `TURN_REQUESTS`): whoever sends thousands of requests at
once shares the loop with the others.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final

from librt.strings import read_i16_be, read_i32_be
from mypy_extensions import i32, i64

from moldau.model.checks import InvariantBroken
from moldau.model.failures import WireError
from moldau.server import faults
from moldau.server.context import Peer, RequestContext
from moldau.server.handlers import api_versions, fetch, produce
from moldau.server.hub import READ_BUFFER_BYTES, Hub, Outgoing
from moldau.server.parking import Parked
from moldau.server.pending import PendingReply
from moldau.server.replies import Drop, Encoded, Failed, NoReply
from moldau.server.request_budget import Claim
from moldau.server.router import Route, Router
from moldau.server.sender import Sender
from moldau.wire.message import Message
from moldau.wire.messages.fetch import decode_fetch_request
from moldau.wire.messages.produce import decode_produce_request
from moldau.wire.primitives import Reader, Writer

BIG_FRAME_BYTES: Final = 16 * 1024
UNSENT_BYTES_HIGH: Final = 1024 * 1024
"""Of replies that may lie in files."""
WRITE_BUFFER_BYTES_HIGH: Final = 256 * 1024
"""Of replies in memory."""
PENDING_REPLIES_MAX: Final = 128
LAST_REPLIES_SECONDS_MAX: Final = 10.0
"""How long a closing connection waits for its peer to take what lies ready for it."""

TURN_S: Final = 0.002
TURN_REQUESTS: Final = 256
"""What one connection may do before the others have their turn."""

WRITES: Final = 1
BUSY: Final = 2
PIPELINE: Final = 4
MEMORY: Final = 8
RATE: Final = 16
REPLIES: Final = 32
SENDING: Final = 64
TURN: Final = 128
ORDER: Final = 256
_PEERS_FAULT: Final = WRITES | REPLIES | SENDING
"""Holds that end when the peer takes its replies."""

_PRODUCE: Final = 0
_FETCH: Final = 1
_API_VERSIONS: Final = 18


class Connection(Outgoing):
    """See the module's text. The `Server` makes one per accepted socket."""

    def __init__(self, hub: Hub, router: Router, peer: Peer, door: Any) -> None:
        super().__init__(peer.touched)
        self.hub = hub
        self.router = router
        self.peer = peer
        self.door: Any = door
        """`door.Door`: what is done seldom."""
        self.transport: Any = None
        self.frame_bytes_max: i64 = door.frame_bytes_max
        self.authenticated: bool = door.authenticated
        self.active: bool = True
        self.idle_since_ms: i64 = 0
        self.requests: i64 = 0
        self.requests_swept: i64 = 0
        self.closed: bool = False
        self.held: i64 = 0
        self.paused: bool = False
        self.rest: bytes = b""
        self.big: memoryview | None = None
        self.claim: Claim | None = None
        """Of `big`, while that arrives."""
        self.expects_large: bool = False
        self.writer: Writer | None = None
        self.sender: Sender | None = None
        self.pending: list[PendingReply] = []
        self.encoded_bytes: i64 = 0
        """Of the answers in `pending` that are encoded already."""

    # What the transport calls

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        delay_ms = self.door.opened(self, transport)
        if delay_ms < 0:
            self.closed = True
            transport.abort()
            return
        transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES_HIGH)
        if delay_ms > 0:
            self._hold(RATE)
            self.hub.loop.call_later(delay_ms / 1000.0, self.release_hold, RATE)

    def connection_lost(self, error: Any) -> None:
        was_open = not self.closed
        self.closed = True
        if was_open or self.transport is not None:
            self.door.left(self)
        self._forget()
        self._stop_sending()
        self.hub.clear(self)
        self.transport = None

    def eof_received(self) -> bool:
        """True keeps the transport open: the peer may have closed only its half, and wait for what is being sent, or
        lies ready for the tick. uvloop may read the end before that tick when a turn is over."""
        if self._is_sending() or self.writer is not None:
            self.close()
            return True
        return False

    def pause_writing(self) -> None:
        self._hold(WRITES)
        if self.sender is not None:
            self.sender.transport_full = True
        self.hub.clog(self)

    def resume_writing(self) -> None:
        self.release_hold(WRITES)
        self._clear_if_taken()
        if self.sender is not None:
            self.sender.drained()

    def get_buffer(self, hint: int) -> memoryview:
        big = self.big
        claim = self.claim
        if big is not None and claim is not None:
            return big[claim.have : claim.charged]
        if self.expects_large:
            return self.hub.read_buffer_begin
        return self.hub.read_buffer

    def buffer_updated(self, size: int) -> None:
        self.active = True
        self.hub.bytes_in_total += size
        claim = self.claim
        if claim is not None:
            claim.have += size
            self._big_frame_grew(claim)
            return
        view = self.hub.read_buffer[:size]
        if size > BIG_FRAME_BYTES and not self.rest and not self.closed:
            self._read_big(view)
        else:
            self._received(bytes(view))
        if self.expects_large:
            self._expect_like_this()

    def _expect_like_this(self) -> None:
        self.expects_large = self.big is not None

    def data_received(self, data: bytes) -> None:
        self.active = True
        self.hub.bytes_in_total += len(data)
        big = self.big
        claim = self.claim
        if big is not None and claim is not None:
            take: i64 = min(claim.need - claim.have, i64(len(data)))
            big[claim.have : claim.have + take] = data[:take]
            claim.have += take
            self._big_frame_grew(claim)
            data = data[take:]
            if not data:
                return
        self._received(data)

    # From bytes to frames

    def _received(self, data: bytes) -> None:
        if self.closed:
            return
        if self.rest:
            data = self.rest + data
            self.rest = b""
        self._consume(data)

    def _consume(self, data: bytes) -> None:
        size: i64 = 0
        end: i64 = len(data)
        position: i64 = 0
        hub = self.hub
        reader = hub.reader
        now_ms: i64 = hub.now_wall_ms()
        hub.turn_s = 0.0
        last_request: i64 = self.requests + TURN_REQUESTS
        try:
            while end - position >= 4 and self.held == 0:
                size = i64(read_i32_be(data, position))
                if size < 0 or size > self.frame_bytes_max:
                    self.door.bad_size(self, data[position : position + 16], size)
                    return
                if self.pending and self._waits_for_its_turn(data, position):
                    break
                if end - position - 4 < size:
                    if size > BIG_FRAME_BYTES and self._start_big_frame(memoryview(data)[position:], size):
                        position = end
                    break
                reader.reset(data, position + 4, position + 4 + size)
                position += 4 + size
                self._request(reader, now_ms)
                if self.closed:
                    return
                if position < end:
                    self._hold_if_full()
                    if self.requests >= last_request or hub.turn_s > TURN_S:
                        self._end_turn()
        except WireError as error:
            self.door.bad_peer(self, str(error))
            return
        if position < end:
            self.rest = data[position:] if position > 0 else data

    def _waits_for_its_turn(self, data: bytes, position: i64) -> bool:
        """Whether the frame is a fetch behind replies that are pending, or has not said yet what it is."""
        if i64(len(data)) - position < 6:
            return True
        if i64(read_i16_be(data, position + 4)) != _FETCH:
            return False
        self._hold(ORDER)
        return True

    def _start_big_frame(self, begun: memoryview, size: i64) -> bool:
        """Receive the rest of a frame into a buffer of its own. False: no memory now, the bytes stay in `rest`."""
        hub = self.hub
        claim = hub.begin_request(self, begun.nbytes, size + 4)
        if claim is None:
            self._hold(MEMORY)
            return False
        buffer = hub.take_buffer(size + 4)
        buffer[: claim.have] = begun
        self.big = buffer
        self.claim = claim
        return True

    def _big_frame_grew(self, claim: Claim) -> None:
        if claim.have == claim.need:
            self._big_frame_done(claim)
        elif claim.have >= claim.charged and not self.hub.more_of_request(claim):
            self._hold(MEMORY)

    def _big_frame_done(self, claim: Claim) -> None:
        buffer = self.big
        if buffer is None:
            return
        self.big = None
        self.claim = None
        hub = self.hub
        self.expects_large = claim.need > READ_BUFFER_BYTES
        charged = hub.request_budget.arrived(claim)
        if not self.closed:
            self._guarded_request(buffer[4 : claim.need])
        if self.pending and self.pending[-1].holds and not self.pending[-1].ready:
            # The coroutine works on what was decoded from this frame, in part still where it lies: both until it ends.
            self.pending[-1].reserved_bytes = charged
            self.pending[-1].buffer = buffer
            return
        hub.request_budget.release(charged)
        hub.give_buffer(buffer)

    def _read_big(self, view: memoryview) -> None:
        """Much was read: handle complete big frames where they lie, receive the rest of an incomplete one elsewhere."""
        position: i64 = 0
        end: i64 = view.nbytes
        self.hub.turn_s = 0.0
        while end - position >= 4 and self.held == 0:
            size: i64 = i64(read_i32_be(bytes(view[position : position + 4]), 0))
            if size <= BIG_FRAME_BYTES or size > self.frame_bytes_max:
                break
            if self.pending and self._waits_for_its_turn(bytes(view[position : position + 6]), 0):
                break
            if end - position - 4 < size:
                if self._start_big_frame(view[position:], size):
                    return
                break
            self._guarded_request(view[position + 4 : position + 4 + size])
            if self.closed:
                return
            position += 4 + size
            if position < end:
                self._hold_if_full()
                if self.hub.turn_s > TURN_S:
                    self._end_turn()
        if position < end:
            self._received(bytes(view[position:]))

    def _guarded_request(self, frame: memoryview) -> None:
        hub = self.hub
        timed: float = hub.turn_s
        begun: float = hub.stopwatch()
        try:
            self._request(Reader.over(frame), hub.now_wall_ms())
        except WireError as error:
            self.door.bad_peer(self, str(error))
        if hub.turn_s == timed:
            hub.spent(hub.stopwatch() - begun)

    def _end_turn(self) -> None:
        if self.held & TURN == 0:
            self._hold(TURN)
            self.hub.loop.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self.held &= ~TURN
        if self.paused:
            self._go_on()

    # From frames to handlers

    def _request(self, reader: Reader, now_ms: i64) -> None:
        hub = self.hub
        key = i64(reader.i16())
        version = i64(reader.i16())
        correlation_id: i32 = reader.i32()
        route = self.router.find(key)
        if route is None:
            raise WireError(f"asks for API {key}, which is not served here")
        client_id = reader.nullable_string()
        context = RequestContext(self.peer, key, version, correlation_id, client_id, now_ms)
        hub.requests_total += 1
        hub.route_name = route.name
        self.requests += 1
        route.requests += 1
        if version < route.min_version or version > route.max_version:
            self._unsupported_version(route, context)
            return
        if version >= route.flexible_from:
            reader.skip_tagged_fields()
        if not self.authenticated and not route.before_authentication:
            raise WireError(f"asks for {route.name} before it has authenticated")
        reader.bound_elements(route.elements_max)
        request: Any = None
        try:
            if key == _PRODUCE:
                produce_request = decode_produce_request(reader, version)
                request = produce_request
                self._answer(route, context, produce.handle(produce_request, context))
            elif key == _FETCH:
                fetch_request = decode_fetch_request(reader, version)
                request = fetch_request
                self._answer(route, context, fetch.handle(fetch_request, context))
            else:
                # Small produces and fetches are counted, not timed: reading the clock costs a twentieth of one.
                begun: float = hub.stopwatch()
                request = route.decode(reader, version)
                self._answer(route, context, route.call(request, context), request)
                hub.spent(hub.stopwatch() - begun)
        except WireError:
            raise
        except InvariantBroken as error:
            self.door.broken(self, error)
        except Exception as error:
            self._answer(route, context, faults.own_fault(hub, route, request, context, error))

    def _unsupported_version(self, route: Route, context: RequestContext) -> None:
        if route.key != _API_VERSIONS:
            raise WireError(
                f"asks for {route.name} version {context.api_version}; "
                f"versions {route.min_version} to {route.max_version} are served"
            )
        # KIP-511: answer in version 0 with the supported range, so that the client can ask again.
        context.api_version = 0
        self._answer(route, context, api_versions.unsupported(context))

    # From results to bytes

    def _answer(self, route: Route, context: RequestContext, result: Any, request: Any = None) -> None:
        if isinstance(result, Message):
            self._answer_now(route, context, result)
            return
        if isinstance(result, NoReply):
            self.hub.mark(self)
            return
        if isinstance(result, Drop):
            self.door.drop(self, result.reason)
            return
        if isinstance(result, Parked):
            if not result.done:
                reply = self._queue(route, context)
                reply.parked = result
                result.deliver = reply.deliver
                self.hub.mark(self)
                return
            result = result.early
        elif isinstance(result, Coroutine):
            reply = self._queue(route, context)
            reply.holds = True
            reply.request = request
            self._hold(BUSY)
            self.door.run(reply, result)
            if self.peer.touched:
                self.hub.mark(self)
            return
        self._answer_now(route, context, result)

    def _answer_now(self, route: Route, context: RequestContext, result: Any) -> None:
        if self.pending:
            reply = self._queue(route, context)
            reply.ready = True
            reply.result = result
            if isinstance(result, Encoded):
                self._keep_encoded(result)
        else:
            self._encode(route, context, result)
        self.hub.mark(self)

    def coroutine_done(self, reply: PendingReply, result: Any) -> None:
        """A coroutine's result is an answer, or a `Parked` one to wait for; what follows need not wait any longer."""
        buffer = reply.buffer
        if buffer is not None:
            reply.buffer = None
            self.hub.give_buffer(buffer)
        if isinstance(result, Parked) and not result.done:
            if self.closed:
                result.abandon()  # came too late to be let go of with the others
                reply.deliver(None)
                return
            reply.parked = result
            result.deliver = reply.deliver
            reply.holds = False  # the hold may be another coroutine's by the time the answer comes
            self.hub.mark(self)
            self.release_hold(BUSY)
            return
        reply.deliver(result.early if isinstance(result, Parked) else result)

    def _keep_encoded(self, answer: Encoded) -> None:
        """It waits for those before it; what follows waits too when it is long."""
        self.encoded_bytes += i64(len(answer.body))
        if self.encoded_bytes > WRITE_BUFFER_BYTES_HIGH:
            self._hold(ORDER)
            self.hub.clog(self)

    def has_partial_frame(self) -> bool:
        return self.big is not None or (len(self.rest) > 0 and self.held == 0)

    def _queue(self, route: Route, context: RequestContext) -> PendingReply:
        reply = PendingReply(self, route, context)
        self.pending.append(reply)
        if len(self.pending) >= PENDING_REPLIES_MAX:
            self._hold(PIPELINE)
        return reply

    def reply_ready(self, reply: PendingReply) -> None:
        """An answer arrived; write all that are ready up to the first that is not."""
        if reply.reserved_bytes > 0:
            self.hub.request_budget.release(reply.reserved_bytes)
            reply.reserved_bytes = 0
        if self.closed:
            self.hub.schedule()  # what a coroutine appended for it is written all the same
            return
        pending = self.pending
        while pending and pending[0].ready:
            first = pending.pop(0)
            result = first.result
            if isinstance(result, Failed):
                result = self.door.failed(first, result.error)
            if isinstance(result, Drop):
                self.door.drop(self, result.reason)
                return
            if not isinstance(result, NoReply):
                self._encode(first.route, first.context, result)
                if self._gone():
                    return
        self.hub.mark(self)
        if pending:
            if reply.ready and isinstance(reply.result, Encoded):
                self._keep_encoded(reply.result)
        elif self.held & ORDER:
            self._in_order()
        if reply.holds:
            self.release_hold(BUSY)
        if self.held & PIPELINE and len(pending) < PENDING_REPLIES_MAX // 2:
            self.release_hold(PIPELINE)

    def _in_order(self) -> None:
        """No reply is pending."""
        self.encoded_bytes = 0
        self._clear_if_taken()
        self.release_hold(ORDER)

    def _encode(self, route: Route, context: RequestContext, response: Any) -> None:
        writer = self.writer
        if writer is None:
            writer = self.hub.take_writer()
            self.writer = writer
        version = context.api_version
        mark = writer.begin_frame()
        writer.i32(context.correlation_id)
        if version >= route.reply_flexible_from:
            writer.no_tagged_fields()
        if route.key == _PRODUCE:
            produce.encode(response, writer, version)
        elif route.key == _FETCH:
            fetch.encode(response, writer, version)
        else:
            scratch = self.hub.scratch
            try:
                route.encode(response, scratch, version)
            except Exception as error:
                scratch.clear()
                substitute = faults.own_fault(self.hub, route, None, context, error)
                if isinstance(substitute, Drop):
                    self.door.drop(self, substitute.reason)
                    return
                route.encode(substitute, scratch, version)
            for piece in scratch.take():
                writer.raw(piece)
        writer.end_frame(mark)

    def write_out(self) -> None:
        """Called by the tick, after the flush."""
        writer = self.writer
        if writer is None:
            return
        self.writer = None
        self.release_hold(REPLIES)
        if self.closed:
            writer.clear()
        elif writer.closed == 0:
            small = len(writer.out) < BIG_FRAME_BYTES
            if len(writer.out) > 0:
                self.write_bytes(writer.take_bytes())
            if not small:
                return
        elif writer.has_ranges or self._is_sending():
            self._send(writer)
        else:
            self.transport.writelines(writer.take())
        self.hub.give_writer(writer)

    def write_bytes(self, data: bytes) -> None:
        """Write behind everything that was written before."""
        sender = self.sender
        if sender is not None and sender.busy:
            sender.send([data], len(data))
            self._hold_if_unsent(sender)
        else:
            self.transport.write(data)

    def _send(self, writer: Writer) -> None:
        sender = self.sender
        if sender is None:
            sender = Sender(self, self.transport, self.hub.loop, WRITE_BUFFER_BYTES_HIGH)
            self.sender = sender
        size = writer.size
        sender.send(writer.take_pieces(), size)
        self._hold_if_unsent(sender)

    def _hold_if_unsent(self, sender: Sender) -> None:
        if sender.unsent > UNSENT_BYTES_HIGH:
            self._hold(SENDING)
            self.hub.clog(self)

    def _is_sending(self) -> bool:
        sender = self.sender
        return sender is not None and sender.busy

    def all_sent(self) -> None:
        """The sender has nothing left."""
        if not self.closed:
            if self.held & SENDING:
                self.held &= ~SENDING
                self._clear_if_taken()
                self._go_on_soon()
        elif self.transport is not None:
            self._stop_sending()
            self.transport.close()

    def _stop_sending(self) -> None:
        sender = self.sender
        if sender is not None:
            self.sender = None
            sender.close()

    # Holding and going on

    def _hold(self, reason: i64) -> None:
        self.held |= reason
        if not self.paused and self.transport is not None and not self.closed:
            self.paused = True
            self.transport.pause_reading()

    def _hold_if_full(self) -> None:
        """More requests wait behind replies that are already enough for the transport: let those leave first."""
        writer = self.writer
        if writer is not None:
            sender = self.sender
            unsent: i64 = 0 if sender is None else sender.unsent
            high: i64 = UNSENT_BYTES_HIGH if writer.has_ranges else WRITE_BUFFER_BYTES_HIGH
            if writer.size + unsent > high:
                self._hold(REPLIES)

    def release_hold(self, reason: int) -> None:
        if self.held & reason:
            self.held &= ~i64(reason)
            self._go_on_soon()

    def _go_on_soon(self) -> None:
        if self.held == 0 and self.paused:
            self.hub.loop.call_soon(self._go_on)

    # What the budgets ask and say

    def memory_freed(self) -> None:
        self.release_hold(MEMORY)

    def waits_for_its_peer(self) -> bool:
        return self.held & ~_PEERS_FAULT == 0

    def unsent_bytes(self) -> i64:
        return self._in_transport() + self.encoded_bytes + (0 if self.sender is None else self.sender.unsent)

    def unsent_in_memory(self) -> i64:
        return self._in_transport() + self.encoded_bytes + (0 if self.sender is None else self.sender.in_memory())

    def _in_transport(self) -> i64:
        transport = self.transport
        return 0 if transport is None else i64(transport.get_write_buffer_size())

    def put_out(self, reason: str) -> None:
        self.hub.complain(self.peer.peer_host, reason)
        self.drop(reason)
        if self.transport is not None:
            self.transport.abort()  # one that is closing waits for its peer, too

    def _clear_if_taken(self) -> None:
        if self.held & (WRITES | SENDING) == 0 and self.encoded_bytes <= WRITE_BUFFER_BYTES_HIGH:
            self.hub.clear(self)

    def _go_on(self) -> None:
        if not self._may_read():
            return
        claim = self.claim
        if claim is not None:
            self._big_frame_grew(claim)
        rest = self.rest
        if rest and self._may_read():
            self.rest = b""
            self._consume(rest)
        if self._may_read() and self.paused:
            self.paused = False
            self.transport.resume_reading()

    def _may_read(self) -> bool:
        return self.held == 0 and not self.closed

    def _gone(self) -> bool:
        return self.closed

    # Ends

    def drop(self, reason: str) -> None:
        """Close without another word: nothing that was not written may be acknowledged."""
        if not self.closed or self.sender is not None:
            self.closed = True
            self._forget()
            self._stop_sending()
            if self.transport is not None:
                self.transport.abort()

    def close(self) -> None:
        """Write what is answered already, then close. Not even now does an answer leave before its flush."""
        if not self.closed:
            if not self.hub.is_written(self):
                self.drop("what it sent could not be written to disk")
                return
            self.write_out()
            if self._gone():
                return
            self.closed = True
            self._forget()
            if self._is_sending():
                self.hub.loop.call_later(LAST_REPLIES_SECONDS_MAX, self._cut_off)
                return
            self._stop_sending()
            if self.transport is not None:
                self.transport.close()

    def _cut_off(self) -> None:
        if self.sender is not None:
            self.drop("it does not take its last replies")

    def _forget(self) -> None:
        """Let go of everything that waits for this connection."""
        pending = self.pending
        self.pending = []
        self.rest = b""
        self.writer = None
        for reply in pending:
            if reply.parked is not None:
                reply.parked.abandon()
        self.encoded_bytes = 0
        claim = self.claim
        if claim is not None:
            self.big = None
            self.claim = None
            self.hub.request_budget.leave(claim)
        elif self.held & MEMORY:
            self.hub.request_budget.forget(self)
