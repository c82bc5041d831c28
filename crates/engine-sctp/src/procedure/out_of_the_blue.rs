//! Packets of no association (RFC 9260 section 8.4).

use crate::discard::DiscardReason;
use crate::endpoint::Sctp;
use crate::pdu::cause::{CauseCode, causes};
use crate::pdu::chunk::{FLAG_T, push_chunk};
use crate::pdu::{Chunk, ChunkType, Chunks, CommonHeader};
use engine::{Address, Path, Received};

/// Answers a packet of no association, if it may be answered. It is counted as dropped in any case.
pub(crate) fn handle(
    sctp: &mut Sctp,
    header: &CommonHeader,
    received: Received<'_>,
) -> Result<(), DiscardReason> {
    if !sctp.shared.owns_port(header.destination) {
        return Err(DiscardReason::OutOfTheBlue);
    }
    if let Some(kind) = answer(received.octets).filter(|_| is_unicast(received.path)) {
        let mut chunks = Vec::new();
        push_chunk(&mut chunks, kind, FLAG_T, &[]);
        let reflected = header.reversed(header.tag);
        sctp.shared.reply(received.path, reflected, &chunks);
    }
    Err(DiscardReason::OutOfTheBlue)
}

/// Whether the packet comes from one host: nothing else opens an association or gets an answer (section 8.4,
/// 1).
pub(super) fn is_unicast(path: Path) -> bool {
    match path.remote {
        Address::Socket(socket) => !socket.ip().is_multicast() && !socket.ip().is_unspecified(),
        Address::Station(_) | Address::Ether(_) => true,
    }
}

/// The chunk that answers the packet; None if it is to be dropped in silence.
fn answer(packet: &[u8]) -> Option<ChunkType> {
    let mut kind = Some(ChunkType::ABORT);
    // Nobody can check an AUTH here.
    let chunks = Chunks::new(packet).filter(|chunk| chunk.kind != ChunkType::AUTH);
    for (index, chunk) in chunks.enumerate() {
        match chunk.kind {
            ChunkType::ABORT => return None,
            ChunkType::SHUTDOWN_COMPLETE | ChunkType::COOKIE_ACK if index == 0 => return None,
            // It may answer a packet of an association that ended meanwhile.
            ChunkType::INIT_ACK if index == 0 => return None,
            ChunkType::SHUTDOWN_ACK if index == 0 => kind = Some(ChunkType::SHUTDOWN_COMPLETE),
            ChunkType::ERROR if is_stale_cookie(&chunk) => return None,
            _ => {}
        }
    }
    kind
}

fn is_stale_cookie(chunk: &Chunk<'_>) -> bool {
    causes(chunk.value).any(|cause| cause.code == CauseCode::STALE_COOKIE)
}
