//! Messages that were given up: FORWARD-TSN and I-FORWARD-TSN (RFC 3758 section 3, RFC 8260 section
//! 2.3).

use crate::association::Association;
use crate::discard::DiscardReason;
use crate::endpoint_state::EndpointState;
use crate::pdu::forward_tsn::SkippedStream;
use crate::pdu::{Chunk, ChunkType, ForwardTsn};
use crate::procedure::abort;
use crate::procedure::data_receive::{PacketData, deliver_held};
use crate::rx::SkipStep;
use engine::{Bytes, Deliveries, Delivery, Note};

/// Whether this end takes chunks of `kind`, one of the two; to one that does not interleave, the newer is
/// unknown.
pub(crate) fn is_known(a: &Association, ep: &EndpointState, kind: ChunkType) -> bool {
    let is_of_kind = match kind {
        ChunkType::FORWARD_TSN => true,
        ChunkType::I_FORWARD_TSN => ep.config.has_interleave(),
        _ => false,
    };
    is_of_kind && a.extensions.partial_reliability
}

/// The peer gave messages up: what is missing of them is not waited for.
pub(crate) fn handle_forward_tsn(
    a: &mut Association,
    ep: &mut EndpointState,
    (data, chunk): (&mut PacketData, &Chunk<'_>),
    deliveries: &mut Deliveries,
) -> Result<(), DiscardReason> {
    if !a.may_receive_data() {
        return Err(DiscardReason::State);
    }
    if (chunk.kind == ChunkType::I_FORWARD_TSN) != a.extensions.interleave {
        abort::do_abort_violation(a, ep);
        return Err(DiscardReason::Malformed);
    }
    let forward = ForwardTsn::parse(chunk.kind, chunk.value).ok_or(DiscardReason::Malformed)?;
    // An old one shows that the last SACK was lost (RFC 3758 section 3.6).
    data.request_sack();
    let Some(tsn) = a.rx.skip_to(forward.cumulative) else {
        return Ok(());
    };
    for (stream, unordered) in a.rx.streams.skip_to(tsn) {
        deliver_aborted(a, (stream, unordered), deliveries);
        deliver_held(a, ep, stream, deliveries)?;
    }
    for skipped in forward.streams() {
        if a.rx.streams.has_stream(skipped.stream.0) {
            skip_stream(a, ep, skipped, deliveries)?;
        }
    }
    Ok(())
}

/// Messages of one stream were given up.
fn skip_stream(
    a: &mut Association,
    ep: &mut EndpointState,
    skipped: SkippedStream,
    deliveries: &mut Deliveries,
) -> Result<(), DiscardReason> {
    let stream = skipped.stream.0;
    if skipped.unordered {
        if a.rx.streams.skip_unordered(stream, skipped.number) {
            deliver_aborted(a, (stream, true), deliveries);
        }
        return deliver_held(a, ep, stream, deliveries);
    }
    loop {
        match a.rx.streams.skip_ordered(stream, skipped.number) {
            SkipStep::Deliver => deliver_held(a, ep, stream, deliveries)?,
            SkipStep::Aborted => {
                deliver_aborted(a, (stream, false), deliveries);
                deliver_held(a, ep, stream, deliveries)?;
            }
            SkipStep::Done => return Ok(()),
        }
    }
}

/// The rest of a message whose first bytes are at the user never comes.
fn deliver_aborted(a: &Association, (stream, unordered): (u16, bool), deliveries: &mut Deliveries) {
    deliveries.bytes.push(Delivery {
        association: a.id,
        bytes: Bytes::Reassembled(Vec::new()),
        gap: true,
        end_of_message: true,
        note: Note {
            stream,
            unordered,
            ..Note::default()
        },
        begin_tag: false,
        end_tag: false,
    });
}
