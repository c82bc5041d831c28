//! AUTH of packets that arrive (RFC 4895 section 6.3).

use crate::association::Association;
use crate::auth::{AuthFault, AuthState};
use crate::discard::DiscardReason;
use crate::pdu::auth::{AuthChunk, HmacId};
use crate::pdu::cause::{Cause, CauseCode};
use crate::pdu::chunk::{CHUNK_HEADER_LEN, push_chunk};
use crate::pdu::{Chunk, ChunkType};

/// Checks an AUTH of a packet. Behind a wrong one the rest of the packet is dropped.
pub(crate) fn handle_auth(
    a: &mut Association,
    path: usize,
    chunk: &Chunk<'_>,
    packet: &[u8],
) -> Result<(), DiscardReason> {
    let Some(auth) = &a.auth else {
        return Err(DiscardReason::Authentication);
    };
    match check(auth, chunk, packet) {
        Ok(()) => Ok(()),
        Err(AuthFault::Code) => Err(DiscardReason::Authentication),
        Err(AuthFault::Hmac(hmac)) => {
            let report = unsupported(hmac);
            a.queue_control(path, report);
            Err(DiscardReason::Authentication)
        }
    }
}

/// Checks the AUTH `chunk` of `packet`, which covers all octets behind it.
pub(super) fn check(auth: &AuthState, chunk: &Chunk<'_>, packet: &[u8]) -> Result<(), AuthFault> {
    let parsed = AuthChunk::parse(chunk.value).ok_or(AuthFault::Code)?;
    auth.check(&parsed, &packet[chunk.at.start - CHUNK_HEADER_LEN..])
}

/// Whether a chunk of this type is dropped, as no AUTH was in front of it.
pub(crate) fn lacks_auth(a: &Association, kind: ChunkType, is_authenticated: bool) -> bool {
    let requires = |auth: &AuthState| auth.requires(kind);
    !is_authenticated && a.auth.as_deref().is_some_and(requires)
}

/// Tells the peer that an HMAC was not offered to it.
fn unsupported(hmac: HmacId) -> Vec<u8> {
    let (mut cause, mut chunk) = (Vec::new(), Vec::new());
    Cause {
        code: CauseCode::UNSUPPORTED_HMAC,
        value: &hmac.0.to_be_bytes(),
    }
    .push(&mut cause);
    push_chunk(&mut chunk, ChunkType::ERROR, 0, &cause);
    chunk
}
