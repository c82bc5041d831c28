//! The state of each path, and which of them carries what (RFC 9260 sections 5.4, 6.4 and 8.2, RFC
//! 7829).

use crate::addresses::{ip_of, listed_address};
use crate::association::Association;
use crate::config::SctpConfig;
use crate::congestion::PathControl;
use crate::endpoint::Sctp;
use crate::endpoint_state::EndpointState;
use crate::notice::Notice;
use crate::path::{PathState, PathStatus};
use crate::pdu::COMMON_HEADER_LEN;
use crate::procedure::{abort, heartbeat, retransmission};
use engine::{Instant, Path};
use std::net::IpAddr;

impl Association {
    /// The path of new data and of lost ones: the primary while it answers, else one that does, else
    /// the one with the fewest timeouts in a row (RFC 7829 section 5.1). Never an unconfirmed one.
    pub(crate) fn data_path(&self) -> usize {
        if self.paths.len() == 1 || self.paths[self.primary].status == PathStatus::Active {
            return self.primary;
        }
        let rank = |index: &usize| {
            let path = &self.paths[*index];
            let errors = match path.status {
                PathStatus::Active => 0,
                _ => path.errors,
            };
            (path.is_removed, path.status, errors, *index != self.primary)
        };
        (0..self.paths.len())
            .min_by_key(rank)
            .unwrap_or(self.primary)
    }

    /// The path of acknowledgements: the one that data last came by, if it answers (RFC 9260 section
    /// 6.4). Also after duplicates: a sender whose path failed moves to another one and repeats what is
    /// there, and an end that sends nothing itself learns late that the first one is gone.
    pub(crate) fn sack_path(&self) -> usize {
        match self.paths[self.last_data_path].status {
            PathStatus::Active => self.last_data_path,
            _ => self.data_path(),
        }
    }

    /// The next path by which an INIT or COOKIE-ECHO is repeated: all that the user named take turns
    /// (RFC 9260 section 5.1).
    pub(crate) fn next_handshake_path(&self) -> usize {
        let count = self.paths.len();
        let mut others = (1..=count).map(|step| (self.primary + step) % count);
        let named = others.find(|index| self.paths[*index].status != PathStatus::Unconfirmed);
        named.unwrap_or(self.primary)
    }

    /// Takes over the addresses that the peer lists. Paths to others go, except that of the handshake;
    /// new ones are unconfirmed.
    pub(crate) fn set_peer_addresses(
        &mut self,
        config: &SctpConfig,
        now: Instant,
        listed: &[IpAddr],
    ) {
        let handshake = self.paths[self.primary].path;
        let is_listed = |path: Path| listed_address(path).is_some_and(|ip| listed.contains(&ip));
        self.paths
            .retain(|known| known.path == handshake || is_listed(known.path));
        let by_handshake = |known: &PathState| known.path == handshake;
        self.primary = self.paths.iter().position(by_handshake).unwrap_or(0);
        // The handshake's path first: its port is the one that is known.
        let mut known = vec![handshake];
        let others = self.paths.iter().map(|known| known.path);
        known.extend(others.filter(|path| *path != handshake));
        for path in config
            .local_addresses
            .all_paths(&known, listed, &self.addresses.excluded)
        {
            if !known.contains(&path) {
                let state = PathState::new(path, PathStatus::Unconfirmed, config, now);
                self.paths.push(state);
            }
        }
        self.last_data_path = self.primary;
        self.control.clear();
        self.peer_addresses = listed.to_vec();
    }
}

/// Changes the status of a path, and tells the user.
pub(crate) fn set_status(
    a: &mut Association,
    ep: &mut EndpointState,
    path: usize,
    status: PathStatus,
) {
    let state = &mut a.paths[path];
    if core::mem::replace(&mut state.status, status) != status {
        ep.notify(Notice::PathStatus {
            association: a.id,
            path: state.path,
            status,
        });
    }
}

/// A path did not answer in time once more. With another one it is potentially failed at once, and
/// data leave by that (RFC 7829 section 5.1).
pub(crate) fn count_path_error(a: &mut Association, ep: &mut EndpointState, path: usize) {
    let several = a.has_several_paths();
    let state = &mut a.paths[path];
    state.errors += 1;
    state.back_off();
    let status = match state.status {
        PathStatus::Unconfirmed => PathStatus::Unconfirmed,
        _ if state.errors > state.parameters.retries => PathStatus::Inactive,
        PathStatus::Active if several && state.errors > ep.config.failover_retries => {
            PathStatus::PotentiallyFailed
        }
        same => same,
    };
    set_status(a, ep, path, status);
}

/// The association did not answer in time once more.
pub(crate) fn count_association_error(a: &mut Association, ep: &mut EndpointState) {
    a.errors += 1;
    if a.errors > ep.config.association_retries {
        abort::do_abort_timed_out(a, ep);
    }
}

/// A path answered: it is confirmed, and carries data again. One that had failed begins with slow start
/// (RFC 7829 section 5.1).
pub(crate) fn activate(a: &mut Association, ep: &mut EndpointState, path: usize) {
    let several = a.has_several_paths();
    let wanted = a.addresses.wanted_primary;
    let state = &mut a.paths[path];
    state.errors = 0;
    if wanted.is_some() && listed_address(state.path) == wanted {
        a.primary = path;
        a.addresses.wanted_primary = None;
    }
    let has_failed = matches!(
        state.status,
        PathStatus::PotentiallyFailed | PathStatus::Inactive
    );
    if several && has_failed {
        state.control = PathControl::new(&ep.config);
        let pmdcs = state.mtu.len() - COMMON_HEADER_LEN;
        state.control.set_pmdcs((pmdcs & !3) as u64);
        state.after_timeout = false;
    }
    if state.status == PathStatus::Unconfirmed {
        let remote = state.path.remote;
        let key = (remote, a.peer_port, a.local_port);
        ep.by_peer.entry(key).or_insert(a.id);
    }
    state.mtu.begin();
    set_status(a, ep, path, PathStatus::Active);
}

/// A packet of the association, by its tag, came from a known address and another UDP port: packets go
/// to that one from now on (RFC 6951 section 5.4).
pub(crate) fn learn_port(a: &mut Association, ep: &mut EndpointState, from: Path) {
    let is_known = a.paths.iter().any(|known| known.path.remote == from.remote);
    let Some(ip) = ip_of(from.remote).filter(|_| !is_known) else {
        return;
    };
    let ports = (a.peer_port, a.local_port);
    for known in &mut a.paths {
        let path = &mut known.path;
        if ip_of(path.remote) != Some(ip) {
            continue;
        }
        let old = (path.remote, ports.0, ports.1);
        if ep.by_peer.get(&old) == Some(&a.id) {
            ep.by_peer.remove(&old);
            ep.by_peer
                .entry((from.remote, ports.0, ports.1))
                .or_insert(a.id);
        }
        path.remote = from.remote;
    }
}

/// Errors of this host that say that packets of an address or to a network do not leave it: ENETDOWN,
/// ENETUNREACH, EHOSTUNREACH and EADDRNOTAVAIL of Linux.
const LOCAL_FAILURES: [i32; 4] = [100, 101, 113, 99];

/// This host could not send on a path: associations that use it and have another one that answers go on
/// there, without a timeout.
pub(crate) fn handle_local_error(sctp: &mut Sctp, now: Instant, path: Path, error: i32) {
    if !LOCAL_FAILURES.contains(&error) {
        return;
    }
    let ep = &mut sctp.shared;
    for a in sctp.associations.values_mut() {
        let failed = a.paths.iter().position(|known| known.path == path);
        let Some(failed) = failed.filter(|index| a.paths[*index].status == PathStatus::Active)
        else {
            continue;
        };
        let answers = |known: &PathState| known.path != path && known.status == PathStatus::Active;
        if !a.may_send_data() || !a.paths.iter().any(answers) {
            continue;
        }
        if a.paths[failed].flight > 0 {
            retransmission::handle_timeout(a, ep, now, failed);
        } else {
            count_path_error(a, ep, failed);
            heartbeat::probe(a, ep, now, failed);
        }
        ep.mark_ready(a.id);
    }
}
