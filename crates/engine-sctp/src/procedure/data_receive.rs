//! Receiving user data (RFC 9260 sections 6.2, 6.5 and 6.6).

use crate::association::{Association, State, Timer};
use crate::discard::DiscardReason;
use crate::endpoint_state::EndpointState;
use crate::pdu::cause::{Cause, CauseCode};
use crate::pdu::chunk::push_chunk;
use crate::pdu::data::FLAG_IMMEDIATE;
use crate::pdu::{Chunk, ChunkType, Chunks};
use crate::procedure::{abort, shutdown};
use crate::rx::{Arrived, Fragment, Taken, Violation};
use engine::{Bytes, Deliveries, Delivery, Framing, Instant, Note};

/// What the data of one packet ask for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketData {
    /// The path it came by.
    path: usize,
    has_data: bool,
    /// The peer is to be told at once.
    is_urgent: bool,
}

impl PacketData {
    /// The packet asks for an acknowledgement at once.
    pub(super) fn request_sack(&mut self) {
        self.has_data = true;
        self.is_urgent = true;
    }

    /// Those of one message that came as it should, by the only path.
    pub(super) fn of_message() -> PacketData {
        PacketData {
            path: 0,
            has_data: true,
            is_urgent: false,
        }
    }

    pub(crate) fn new(path: usize) -> PacketData {
        PacketData {
            path,
            has_data: false,
            is_urgent: false,
        }
    }
}

pub(crate) fn handle_data(
    a: &mut Association,
    ep: &mut EndpointState,
    (data, chunk): (&mut PacketData, &Chunk<'_>),
    packet: &[u8],
    deliveries: &mut Deliveries,
) -> Result<(), DiscardReason> {
    if !a.may_receive_data() {
        return Err(DiscardReason::State);
    }
    if (chunk.kind == ChunkType::I_DATA) != a.extensions.interleave {
        // Both ends agreed on the other one (RFC 8260 section 2.2.1).
        abort::do_abort_violation(a, ep);
        return Err(DiscardReason::Malformed);
    }
    let (fragment, fields_len) = Fragment::parse(chunk).ok_or(DiscardReason::Malformed)?;
    let len = chunk.value.len() - fields_len;
    if len == 0 {
        let tsn = fragment.tsn.0.to_be_bytes();
        let cause = Cause {
            code: CauseCode::NO_USER_DATA,
            value: &tsn,
        };
        abort::do_abort_for(a, ep, &cause);
        return Err(DiscardReason::Malformed);
    }
    data.is_urgent |= !data.has_data && a.rx.has_gap();
    data.has_data = true;
    if fragment.flags & FLAG_IMMEDIATE != 0 {
        data.is_urgent = true;
        // At the end every sender may ask.
        a.rx.peer_asks |= a.state == State::Established;
    }
    let is_valid = a.rx.streams.has_stream(fragment.stream.0);
    let mut arrived = Arrived { fragment, len };
    let taken = a.rx.take(&mut arrived, is_valid);
    let fragment = arrived.fragment;
    let range = chunk.at.start + fields_len..chunk.at.end;
    match taken {
        Taken::Refused => return refuse_stream(a, data.path, &fragment),
        Taken::Duplicate => data.is_urgent = true,
        Taken::NoRoom => {
            data.is_urgent = true;
            return Err(DiscardReason::Window);
        }
        Taken::Skipped => return Ok(()),
        Taken::Deliver => deliver(a, ep, &fragment, Bytes::Packet(range), len, deliveries),
        Taken::Held => hold(a, ep, fragment, &packet[range])?,
    }
    deliver_held(a, ep, fragment.stream.0, deliveries)
}

/// Handles the chunks that come next as [`handle_data`] would, as long as each is a whole message that goes to the user
/// at once and has nothing else to say. The first chunk of a packet is not among them: what holds for all data of it is
/// decided there.
#[inline]
pub(crate) fn handle_run(
    a: &mut Association,
    ep: &mut EndpointState,
    (data, chunks): (&PacketData, &mut Chunks<'_>),
    deliveries: &mut Deliveries,
) {
    if !data.has_data || chunks.is_at_end() {
        return;
    }
    let is_usual = a.may_receive_data() && a.auth.is_none() && !a.extensions.interleave;
    if !is_usual || ep.config.framing != Framing::Messages {
        return;
    }
    if let Some(ranges) = deliveries.whole_of(a.id) {
        ep.counters.bytes_delivered += a.rx.take_run(chunks, ranges);
    }
}

/// Keeps a copy of a chunk until its turn. One whose message nothing can complete is a fault of the
/// peer, unless it gave messages up and this comes late.
fn hold(
    a: &mut Association,
    ep: &mut EndpointState,
    fragment: Fragment,
    bytes: &[u8],
) -> Result<(), DiscardReason> {
    let tsn = a.rx.long(fragment.tsn);
    let held = a.rx.streams.hold(tsn, fragment, bytes);
    ep.counters.bytes_copied += bytes.len() as u64;
    let before = crate::numbers::LongTsn(tsn.0 - 1);
    let is_orphan = !a.extensions.interleave
        && !fragment.is_begin()
        && a.rx.is_cumulative(tsn)
        && !a.rx.streams.is_held(before);
    if is_orphan && a.rx.has_skipped {
        a.rx.streams.drop_held(tsn);
    } else if is_orphan || held.is_err() {
        abort::do_abort_violation(a, ep);
        return Err(DiscardReason::Malformed);
    }
    Ok(())
}

/// A stream that the peer may not use: the chunk counts as received, and is reported.
fn refuse_stream(
    a: &mut Association,
    path: usize,
    fragment: &Fragment,
) -> Result<(), DiscardReason> {
    let stream = fragment.stream.0.to_be_bytes();
    let value = [stream[0], stream[1], 0, 0];
    let (mut cause, mut chunk) = (Vec::new(), Vec::new());
    Cause {
        code: CauseCode::INVALID_STREAM,
        value: &value,
    }
    .push(&mut cause);
    push_chunk(&mut chunk, ChunkType::ERROR, 0, &cause);
    a.queue_control(path, chunk);
    Err(DiscardReason::State)
}

/// Delivers chunks of `stream` that waited for what came now.
pub(super) fn deliver_held(
    a: &mut Association,
    ep: &mut EndpointState,
    stream: u16,
    deliveries: &mut Deliveries,
) -> Result<(), DiscardReason> {
    loop {
        match a.rx.streams.next_ready(stream) {
            Ok(Some((fragment, bytes))) => {
                let len = bytes.len();
                a.rx.count_delivered(len as u64);
                deliver(a, ep, &fragment, Bytes::Reassembled(bytes), len, deliveries);
            }
            Ok(None) => return Ok(()),
            Err(Violation) => {
                abort::do_abort_violation(a, ep);
                return Err(DiscardReason::Malformed);
            }
        }
    }
}

fn deliver(
    a: &Association,
    ep: &mut EndpointState,
    fragment: &Fragment,
    bytes: Bytes,
    len: usize,
    deliveries: &mut Deliveries,
) {
    ep.counters.bytes_delivered += len as u64;
    let has_messages = ep.config.framing == Framing::Messages;
    if has_messages
        && fragment.is_plain_message()
        && let Bytes::Packet(range) = &bytes
        && let Some(ranges) = deliveries.whole_of(a.id)
    {
        return ranges.push(range.start as u32..range.end as u32);
    }
    let note = match has_messages {
        true => Note {
            stream: fragment.stream.0,
            tag: (fragment.ppid != 0).then_some(u64::from(fragment.ppid)),
            unordered: fragment.is_unordered(),
            ..Note::default()
        },
        false => Note::default(),
    };
    deliveries.bytes.push(Delivery {
        association: a.id,
        bytes,
        gap: false,
        end_of_message: has_messages && fragment.is_end(),
        note,
        begin_tag: false,
        end_tag: false,
    });
}

/// All chunks of a packet were handled: an acknowledgement is due now or after a delay (RFC 9260
/// section 6.2).
pub(crate) fn end_packet(
    a: &mut Association,
    ep: &mut EndpointState,
    now: Instant,
    data: &PacketData,
) {
    if !data.has_data {
        return;
    }
    a.last_data_path = data.path;
    a.rx.count_packet(now);
    let is_first = !core::mem::replace(&mut a.rx.has_data, true);
    let in_shutdown = matches!(a.state, State::ShutdownSent { .. });
    if is_first || data.is_urgent || a.rx.has_gap() || in_shutdown {
        a.rx.sack_due = true;
    } else if a.rx.packets == 1 {
        let at = now + ep.config.sack_delay;
        ep.set_timer(a.id, Timer::Sack, at);
    }
    if in_shutdown {
        shutdown::repeat_shutdown(a);
        // The SHUTDOWN acknowledges what has no gap (RFC 9260 section 9.2).
        if !a.rx.has_gap() && a.rx.duplicates().is_empty() {
            a.rx.acknowledge_alone();
        }
    }
}
