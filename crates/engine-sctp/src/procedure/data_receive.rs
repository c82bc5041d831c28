//! Receiving user data (RFC 9260 sections 6.2, 6.5 and 6.6).

use crate::association::{Association, State, Timer};
use crate::discard::DiscardReason;
use crate::endpoint_state::EndpointState;
use crate::pdu::cause::{Cause, CauseCode};
use crate::pdu::chunk::push_chunk;
use crate::pdu::data::{DATA_FIELDS_LEN, FLAG_IMMEDIATE};
use crate::pdu::{Chunk, ChunkType, DataHeader};
use crate::procedure::{abort, shutdown};
use crate::rx::{Arrived, Taken, Violation};
use engine::{Bytes, Delivery, Framing, Instant, Note};

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
    deliveries: &mut Vec<Delivery>,
) -> Result<(), DiscardReason> {
    if !matches!(
        a.state,
        State::Established | State::ShutdownPending | State::ShutdownSent { .. }
    ) {
        return Err(DiscardReason::State);
    }
    let header = DataHeader::parse(chunk.flags, chunk.value).ok_or(DiscardReason::Malformed)?;
    let len = chunk.value.len() - DATA_FIELDS_LEN;
    if len == 0 {
        let tsn = header.tsn.0.to_be_bytes();
        let cause = Cause {
            code: CauseCode::NO_USER_DATA,
            value: &tsn,
        };
        abort::do_abort_for(a, ep, &cause);
        return Err(DiscardReason::Malformed);
    }
    data.is_urgent |= !data.has_data && a.rx.has_gap();
    data.has_data = true;
    data.is_urgent |= header.flags & FLAG_IMMEDIATE != 0;
    let is_valid = a.rx.streams.has_stream(header.stream.0);
    let taken = a.rx.take(&Arrived { header, len }, is_valid);
    let range = chunk.at.start + DATA_FIELDS_LEN..chunk.at.end;
    match taken {
        Taken::Refused => return refuse_stream(a, data.path, &header),
        Taken::Duplicate => data.is_urgent = true,
        Taken::NoRoom => {
            data.is_urgent = true;
            return Err(DiscardReason::Window);
        }
        Taken::Deliver => deliver(a, ep, &header, Bytes::Packet(range), len, deliveries),
        Taken::Held => {
            let tsn = a.rx.long(header.tsn);
            a.rx.streams.hold(tsn, header, &packet[range]);
            ep.counters.bytes_copied += len as u64;
            let before = crate::numbers::LongTsn(tsn.0 - 1);
            let is_orphan =
                !header.is_begin() && a.rx.is_cumulative(tsn) && !a.rx.streams.is_held(before);
            if is_orphan {
                abort::do_abort_violation(a, ep);
                return Err(DiscardReason::Malformed);
            }
        }
    }
    deliver_held(a, ep, header.stream.0, deliveries)
}

/// A stream that the peer may not use: the chunk counts as received, and is reported.
fn refuse_stream(
    a: &mut Association,
    path: usize,
    header: &DataHeader,
) -> Result<(), DiscardReason> {
    let stream = header.stream.0.to_be_bytes();
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
fn deliver_held(
    a: &mut Association,
    ep: &mut EndpointState,
    stream: u16,
    deliveries: &mut Vec<Delivery>,
) -> Result<(), DiscardReason> {
    loop {
        match a.rx.streams.next_ready(stream) {
            Ok(Some((header, bytes))) => {
                let len = bytes.len();
                a.rx.count_delivered(len as u64);
                deliver(a, ep, &header, Bytes::Reassembled(bytes), len, deliveries);
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
    header: &DataHeader,
    bytes: Bytes,
    len: usize,
    deliveries: &mut Vec<Delivery>,
) {
    ep.counters.bytes_delivered += len as u64;
    let has_messages = ep.config.framing == Framing::Messages;
    let note = match has_messages {
        true => Note {
            stream: header.stream.0,
            tag: (header.ppid != 0).then_some(u64::from(header.ppid)),
            unordered: header.is_unordered(),
            ..Note::default()
        },
        false => Note::default(),
    };
    deliveries.push(Delivery {
        association: a.id,
        bytes,
        gap: false,
        end_of_message: has_messages && header.is_end(),
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
    a.rx.packets += 1;
    let is_first = !core::mem::replace(&mut a.rx.has_data, true);
    let in_shutdown = matches!(a.state, State::ShutdownSent { .. });
    if is_first || data.is_urgent || a.rx.has_gap() || a.rx.packets >= 2 || in_shutdown {
        a.rx.sack_due = true;
    } else {
        let at = now + ep.config.sack_delay;
        ep.set_timer(a.id, Timer::Sack, at);
    }
    if in_shutdown {
        shutdown::repeat_shutdown(a);
    }
}
