//! Notifications as `towpath_sctp.h` lays them out (RFC 6458 section 6).

use super::octets::Octets;
use super::settings::{SendInfo, policy};
use library::sctp::{AddressChange, FailedMessage, PathStatus, ReconfigOutcome, StreamDirection};
use std::net::SocketAddr;

/// The first type.
pub(crate) const TYPE_FIRST: u16 = 1 << 15;

/// Types, as the bit of [`Settings::events`](super::settings::Settings::events).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum Kind {
    AssocChange = 1,
    PeerAddrChange = 2,
    SendFailed = 3,
    ShutdownEvent = 5,
    PartialDelivery = 6,
    AdaptationIndication = 7,
    AuthenticationEvent = 8,
    SenderDry = 9,
    StreamReset = 10,
    StreamChange = 12,
    SendFailedEvent = 13,
}

/// Number of types: those that can be asked for, though some never come.
pub(crate) const KINDS: u16 = 14;

/// States of struct sctp_assoc_change.
pub(crate) const COMM_UP: u16 = 0;
pub(crate) const COMM_LOST: u16 = 1;
pub(crate) const RESTART: u16 = 2;
pub(crate) const SHUTDOWN_COMP: u16 = 3;
pub(crate) const CANT_STR_ASSOC: u16 = 4;

/// At the end of struct sctp_assoc_change: the association authenticates.
pub(crate) const SUPPORTS_AUTH: u8 = 1;

/// Why the peer or this end gave an association up, in struct sctp_assoc_change: errno's numbers have no
/// place there, so this is a cause of RFC 9260 section 3.3.10, or 0.
pub(crate) type Cause = u16;

/// Begins a notification of `kind`; its length is filled in by [`finish`].
fn begin(kind: Kind, flags: u16) -> Octets {
    Octets::default()
        .u16(TYPE_FIRST + kind as u16)
        .u16(flags)
        .u32(0)
}

fn finish(octets: Octets) -> Vec<u8> {
    let mut octets = octets.0;
    let len = octets.len() as u32;
    octets[4..8].copy_from_slice(&len.to_ne_bytes());
    octets
}

/// struct sctp_assoc_change.
pub(crate) fn assoc_change(
    (state, cause): (u16, Cause),
    (outbound, inbound): (u16, u16),
    assoc: i32,
    info: &[u8],
) -> Vec<u8> {
    let octets = begin(Kind::AssocChange, 0).u16(state).u16(cause);
    finish(octets.u16(outbound).u16(inbound).i32(assoc).octets(info))
}

/// States of struct sctp_paddr_change.
pub(crate) const ADDR_AVAILABLE: i32 = 0;
const ADDR_UNREACHABLE: i32 = 1;
const ADDR_REMOVED: i32 = 2;
const ADDR_ADDED: i32 = 3;
const ADDR_MADE_PRIM: i32 = 4;
const ADDR_CONFIRMED: i32 = 5;
const ADDR_POTENTIALLY_FAILED: i32 = 6;

/// The state of an address whose path has this status; None where nothing is told.
pub(crate) fn state_of_path(status: PathStatus, was_confirmed: bool) -> Option<i32> {
    match status {
        PathStatus::Active if was_confirmed => Some(ADDR_AVAILABLE),
        PathStatus::Active => Some(ADDR_CONFIRMED),
        PathStatus::PotentiallyFailed => Some(ADDR_POTENTIALLY_FAILED),
        PathStatus::Inactive => Some(ADDR_UNREACHABLE),
        PathStatus::Unconfirmed => None,
    }
}

/// The state of an address that the peer changed.
pub(crate) fn state_of_change(change: AddressChange) -> i32 {
    match change {
        AddressChange::Added => ADDR_ADDED,
        AddressChange::Deleted => ADDR_REMOVED,
        AddressChange::Preferred => ADDR_MADE_PRIM,
    }
}

/// struct sctp_paddr_change.
pub(crate) fn peer_addr_change(address: SocketAddr, state: i32, assoc: i32) -> Vec<u8> {
    let octets = begin(Kind::PeerAddrChange, 0).address(address);
    finish(octets.i32(state).i32(0).i32(assoc))
}

/// Flags of a message that failed: nothing of it was sent, or something was.
const DATA_UNSENT: u16 = 0;
const DATA_SENT: u16 = 1;

/// What a failed message says of itself.
fn failed_info(message: &FailedMessage, assoc: i32) -> (u16, SendInfo) {
    let flags = if message.was_sent {
        DATA_SENT
    } else {
        DATA_UNSENT
    };
    let info = &message.info;
    let whole = u16::from(info.unordered);
    let of = SendInfo {
        stream: info.stream,
        flags: whole,
        ppid: info.ppid.to_be(),
        context: info.context as u32,
        assoc,
    };
    (flags, of)
}

/// struct sctp_send_failed_event, and the message behind it.
pub(crate) fn send_failed_event(message: &FailedMessage, assoc: i32) -> Vec<u8> {
    let (flags, info) = failed_info(message, assoc);
    let octets = begin(Kind::SendFailedEvent, flags).u32(0);
    let octets = octets.octets(&info.octets().0).i32(assoc);
    finish(octets.octets(&message.bytes))
}

/// struct sctp_send_failed, and the message behind it.
pub(crate) fn send_failed(message: &FailedMessage, assoc: i32) -> Vec<u8> {
    let (flags, info) = failed_info(message, assoc);
    let (_, value) = policy(message.info.reliability);
    let octets = begin(Kind::SendFailed, flags).u32(0);
    let octets = octets.octets(&sndrcvinfo(&info, value).0).i32(assoc);
    finish(octets.octets(&message.bytes))
}

/// struct sctp_sndrcvinfo.
pub(crate) fn sndrcvinfo(info: &SendInfo, value: u32) -> Octets {
    let octets = Octets::default().u16(info.stream).u16(0).u16(info.flags);
    let octets = octets.u16(0).u32(info.ppid).u32(info.context).u32(value);
    octets.u32(0).u32(0).i32(info.assoc)
}

/// struct sctp_shutdown_event.
pub(crate) fn shutdown_event(assoc: i32) -> Vec<u8> {
    finish(begin(Kind::ShutdownEvent, 0).i32(assoc))
}

/// The sender of a message gave it up, of which parts were given (pdapi_indication).
const PARTIAL_DELIVERY_ABORTED: u32 = 1;

/// struct sctp_pdapi_event. The library does not know the number of the message in its stream.
pub(crate) fn partial_delivery(stream: u16, assoc: i32) -> Vec<u8> {
    let octets = begin(Kind::PartialDelivery, 0).u32(PARTIAL_DELIVERY_ABORTED);
    finish(octets.u32(stream.into()).u32(0).i32(assoc))
}

/// struct sctp_adaptation_event.
pub(crate) fn adaptation_indication(value: u32, assoc: i32) -> Vec<u8> {
    finish(begin(Kind::AdaptationIndication, 0).u32(value).i32(assoc))
}

/// The peer cannot authenticate.
const AUTH_NO_AUTH: u32 = 2;

/// struct sctp_authkey_event.
pub(crate) fn no_authentication(assoc: i32) -> Vec<u8> {
    let octets = begin(Kind::AuthenticationEvent, 0).u16(0).u16(0);
    finish(octets.u32(AUTH_NO_AUTH).i32(assoc))
}

/// struct sctp_sender_dry_event.
pub(crate) fn sender_dry(assoc: i32) -> Vec<u8> {
    finish(begin(Kind::SenderDry, 0).i32(assoc))
}

/// Flags of struct sctp_stream_reset_event and sctp_stream_change_event: whose streams, and what became
/// of the request (RFC 6525 section 6.1.2).
fn reconfig_flags(direction: StreamDirection, outcome: ReconfigOutcome) -> u16 {
    let direction = match direction {
        StreamDirection::Incoming => 1,
        StreamDirection::Outgoing => 2,
    };
    direction | outcome_flag(outcome)
}

fn outcome_flag(outcome: ReconfigOutcome) -> u16 {
    match outcome {
        ReconfigOutcome::Done => 0,
        ReconfigOutcome::Denied => 4,
        ReconfigOutcome::Failed => 8,
    }
}

/// struct sctp_stream_reset_event.
pub(crate) fn stream_reset(
    (direction, outcome): (StreamDirection, ReconfigOutcome),
    streams: &[u16],
    assoc: i32,
) -> Vec<u8> {
    let octets = begin(Kind::StreamReset, reconfig_flags(direction, outcome)).i32(assoc);
    let list = streams
        .iter()
        .fold(octets, |octets, stream| octets.u16(*stream));
    finish(list)
}

/// struct sctp_stream_change_event: how many streams there are now, inbound and outbound.
pub(crate) fn stream_change(
    outcome: ReconfigOutcome,
    (inbound, outbound): (u16, u16),
    assoc: i32,
) -> Vec<u8> {
    let octets = begin(Kind::StreamChange, outcome_flag(outcome)).i32(assoc);
    finish(octets.u16(inbound).u16(outbound))
}

#[cfg(test)]
mod tests {
    use super::*;
    use library::sctp::MessageInfo;

    #[test]
    fn notifications_begin_with_type_and_length() {
        let failed = FailedMessage {
            bytes: b"lost".to_vec(),
            is_whole: true,
            was_sent: true,
            info: MessageInfo::default(),
        };
        let address = "127.0.0.1:7".parse().expect("an address");
        let reset = (StreamDirection::Incoming, ReconfigOutcome::Done);
        let all = [
            (
                1,
                21,
                assoc_change((COMM_UP, 0), (3, 4), 9, &[SUPPORTS_AUTH]),
            ),
            (2, 148, peer_addr_change(address, ADDR_AVAILABLE, 9)),
            (3, 52, send_failed(&failed, 9)),
            (5, 12, shutdown_event(9)),
            (6, 24, partial_delivery(3, 9)),
            (7, 16, adaptation_indication(5, 9)),
            (8, 20, no_authentication(9)),
            (9, 12, sender_dry(9)),
            (10, 16, stream_reset(reset, &[1, 2], 9)),
            (12, 16, stream_change(ReconfigOutcome::Done, (1, 2), 9)),
            (13, 36, send_failed_event(&failed, 9)),
        ];
        for (kind, len, octets) in all {
            assert_eq!(octets.len(), len, "type {kind}");
            assert_eq!(octets[..2], (TYPE_FIRST + kind).to_ne_bytes());
            assert_eq!(octets[4..8], (len as u32).to_ne_bytes());
        }
    }
}
