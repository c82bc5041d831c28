//! Paths that come and go while an association lives. The place of one that went is free for the next:
//! chunks and timers know a path by its index.

use crate::addresses::listed_address;
use crate::association::{Association, Timer};
use crate::endpoint_state::EndpointState;
use crate::path::{PathState, PathStatus};
use crate::pdu::ChunkType;
use crate::procedure::{heartbeat, retransmission};
use engine::{Instant, LocalAddress, Path};
use std::net::IpAddr;

impl Association {
    /// Its paths, without the places of those that went.
    pub(crate) fn live_paths(&self) -> impl Iterator<Item = &PathState> {
        self.paths.iter().filter(|known| !known.is_removed)
    }

    /// Whether it has another path than one.
    pub(crate) fn has_several_paths(&self) -> bool {
        self.live_paths().nth(1).is_some()
    }

    /// The addresses of the peer that paths lead to.
    pub(super) fn remote_addresses(&self) -> Vec<IpAddr> {
        let mut addresses: Vec<IpAddr> = self
            .live_paths()
            .filter_map(|known| listed_address(known.path))
            .collect();
        addresses.sort_unstable();
        addresses.dedup();
        addresses
    }
}

/// Adds the paths that lead to `listed` addresses of the peer, and from own ones that have none. They are
/// unconfirmed, and looked at at once.
pub(super) fn add_paths(
    a: &mut Association,
    ep: &mut EndpointState,
    now: Instant,
    listed: &[IpAddr],
) {
    let mut known: Vec<Path> = a.live_paths().map(|known| known.path).collect();
    // The path of data first: its port is the one that is known.
    let data = a.paths[a.data_path()].path;
    known.sort_by_key(|path| *path != data);
    let excluded = &a.addresses.excluded;
    let all = (ep.config.local_addresses).all_paths(&known, listed, excluded);
    for path in all {
        if known.contains(&path) {
            continue;
        }
        let state = PathState::new(path, PathStatus::Unconfirmed, &ep.config, now);
        let free = a.paths.iter().position(|known| known.is_removed);
        let index = free.unwrap_or(a.paths.len());
        match free {
            Some(index) => a.paths[index] = state,
            None => a.paths.push(state),
        }
        heartbeat::probe(a, ep, now, index);
    }
}

/// Removes the paths of which `goes` says so. What is in flight there is sent again elsewhere.
pub(super) fn remove_paths(
    a: &mut Association,
    ep: &mut EndpointState,
    goes: impl Fn(&PathState) -> bool,
) {
    ep.unindex_paths(a);
    for index in 0..a.paths.len() {
        if a.paths[index].is_removed || !goes(&a.paths[index]) {
            continue;
        }
        give_up_path(a, ep, index);
        let path = &mut a.paths[index];
        path.is_removed = true;
        path.status = PathStatus::Unconfirmed;
        path.heartbeat = None;
    }
    ep.index_paths(a);
    leave_removed(a);
}

/// What is in flight on a path is lost, and none of its timers goes on.
fn give_up_path(a: &mut Association, ep: &mut EndpointState, index: usize) {
    retransmission::mark_lost(a, index);
    for timer in [
        Timer::Retransmission(index as u8),
        Timer::Heartbeat(index as u8),
        Timer::PathMtu(index as u8),
    ] {
        ep.cancel_timer(a.id, timer);
    }
}

/// Whatever was to leave by a path that went leaves by another one.
fn leave_removed(a: &mut Association) {
    let other = a.data_path();
    let is_removed: Vec<bool> = a.paths.iter().map(|known| known.is_removed).collect();
    let leave = |path: &mut usize| {
        if is_removed[*path] {
            *path = other;
        }
    };
    leave(&mut a.primary);
    leave(&mut a.last_data_path);
    let is_probe =
        |octets: &[u8]| [ChunkType::HEARTBEAT.0, ChunkType::HEARTBEAT_ACK.0].contains(&octets[0]);
    a.control
        .retain(|chunk| !is_removed[chunk.path] || !is_probe(&chunk.octets));
    a.control
        .iter_mut()
        .for_each(|chunk| leave(&mut chunk.path));
    if let Some(asked) = &mut a.reconfig.asked {
        leave(&mut asked.sent.path);
    }
    if let Some(asked) = &mut a.addresses.asked {
        leave(&mut asked.sent.path);
    }
}

/// Packets leave from an own address no longer: each address of the peer keeps a path, from another own
/// address, with the status that it had. False, and nothing changes, if none could be left.
pub(super) fn leave_address(
    a: &mut Association,
    ep: &mut EndpointState,
    now: Instant,
    address: LocalAddress,
) -> bool {
    let mut excluded = a.addresses.excluded.clone();
    excluded.push(address);
    let (gone, kept): (Vec<&PathState>, Vec<&PathState>) = a
        .live_paths()
        .partition(|known| known.path.local == address);
    let mut paths: Vec<Path> = kept.iter().map(|known| known.path).collect();
    let mut moved = Vec::new();
    for known in gone {
        let remote = known.path.remote;
        let other = (ep.config.local_addresses).path_to(remote, &paths, &excluded);
        if let Some(path) = other.filter(|path| !paths.contains(path)) {
            paths.push(path);
            moved.push((path, known.status));
        }
    }
    let is_confirmed = |status| status != PathStatus::Unconfirmed;
    let mut statuses = kept.iter().map(|known| known.status);
    let mut moved_statuses = moved.iter().map(|(_, status)| *status);
    if !statuses.any(is_confirmed) && !moved_statuses.any(is_confirmed) {
        return false;
    }
    a.addresses.excluded = excluded;
    for (path, status) in moved {
        let state = PathState::new(path, status, &ep.config, now);
        let leaves = |known: &PathState| known.path.local == address && !known.is_removed;
        let index = a.paths.iter().position(leaves);
        // One that goes is moved; there is one for each.
        if let Some(index) = index {
            move_path(a, ep, index, state);
        }
    }
    remove_paths(a, ep, |known| known.path.local == address);
    true
}

/// A path leads from another own address now; what is in flight is sent again there.
fn move_path(a: &mut Association, ep: &mut EndpointState, index: usize, state: PathState) {
    give_up_path(a, ep, index);
    a.paths[index] = state;
}
