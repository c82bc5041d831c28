//! What leaves besides data: control chunks, acknowledgements by a path of their own, and room for AUTH.

use crate::association::Association;
use crate::pdu::ChunkType;

/// The path of an acknowledgement that is due and leaves by another path than data.
pub(super) fn lone_sack_path(a: &Association, data_path: usize) -> Option<usize> {
    if a.paths.len() == 1 || !a.rx.is_sack_due() || !a.may_send_sack() {
        return None;
    }
    Some(a.sack_path()).filter(|path| *path != data_path)
}

/// Moves control chunks of one path to `out`, as many as fit a packet; that path.
pub(super) fn take_control(a: &mut Association, out: &mut Vec<u8>, room: usize) -> Option<usize> {
    let path = a.control.front()?.path;
    while let Some(chunk) = a.control.pop_front_if(|chunk| {
        chunk.path == path && (out.is_empty() || out.len() + chunk.octets.len() <= room)
    }) {
        out.extend(chunk.octets);
    }
    Some(path)
}

/// Octets of an AUTH that data or acknowledgements need, so that every packet keeps room for it.
pub(super) fn usual_auth_len(a: &Association) -> usize {
    let usual = [ChunkType::DATA, ChunkType::I_DATA, ChunkType::SACK];
    match &a.auth {
        Some(auth) if usual.iter().any(|kind| auth.peer_requires(*kind)) => auth.len(),
        _ => 0,
    }
}
