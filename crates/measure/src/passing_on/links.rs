//! What both ends of a link between two processes agree on.

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;
use towpath::channel::{ArenaOwner, ArenaSender, ArenaSlot, ChannelError, SLOT_LEN_MIN};

/// Messages that are on the way at most, in an arena or in both rings together.
pub(super) const SLOTS: u32 = 64;

/// Octets of the slot of a message.
pub(super) fn slot_len(size: usize) -> u32 {
    (size as u32).next_power_of_two().max(SLOT_LEN_MIN)
}

/// Sockets of the kernel that keep messages apart.
pub(super) fn kernel_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC;
    Ok(socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        flags,
        None,
    )?)
}

pub(super) fn failed(error: ChannelError) -> io::Error {
    io::Error::other(error)
}

/// A free slot of the arena, for which it waits as long as all of `receivers` live.
pub(super) fn free_slot(
    owner: &ArenaOwner,
    receivers: &mut [ArenaSender],
) -> io::Result<ArenaSlot> {
    loop {
        let taken = owner.arena().take_within(Duration::from_secs(1));
        if let Some(slot) = taken.map_err(failed)? {
            return Ok(slot);
        }
        for receiver in &mut *receivers {
            if receiver.peer_gone().map_err(failed)? {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
        }
    }
}
