//! What a tunnel's connections may take, and how often it says that they take too much.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// Shortest time between two log lines.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// Connections of each peer: an IPv4 address, or the 64 bits of an IPv6 network that one host may
/// choose addresses in.
#[derive(Debug, Default)]
pub(super) struct PeerCounts {
    counts: HashMap<IpAddr, usize>,
    /// Connections of a peer at most; None for no limit.
    pub(super) max: Option<usize>,
}

impl PeerCounts {
    /// Counts a connection of `peer`; false if it has as many as it may.
    pub(super) fn add(&mut self, peer: IpAddr) -> bool {
        let count = self.counts.entry(network(peer)).or_default();
        let admitted = self.max.is_none_or(|max| *count < max);
        *count += usize::from(admitted);
        admitted
    }

    /// Forgets a connection of `peer`.
    pub(super) fn remove(&mut self, peer: IpAddr) {
        let network = network(peer);
        if let Some(count) = self.counts.get_mut(&network) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&network);
            }
        }
    }
}

fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

/// Receives log lines.
pub(super) type LogSink = Box<dyn FnMut(&str) + Send>;

/// Passes on one line a second, with the number of lines left out.
#[derive(Default)]
pub(super) struct LimitedLog {
    pub(super) sink: Option<LogSink>,
    last_at: Option<Instant>,
    left_out: u64,
}

impl LimitedLog {
    /// Logs `what` at `now`, unless the last line was less than a second before.
    pub(super) fn line(&mut self, now: Instant, what: &str) {
        if self
            .last_at
            .is_some_and(|last| now.duration_since(last) < LOG_INTERVAL)
        {
            self.left_out += 1;
            return;
        }
        self.last_at = Some(now);
        let left_out = std::mem::take(&mut self.left_out);
        if let Some(sink) = &mut self.sink {
            match left_out {
                0 => sink(what),
                more => sink(&format!("{what} (and {more} more failures)")),
            }
        }
    }
}

/// Whether the host lacks descriptors, memory or ports, so that the next attempt would fail as well.
pub(super) fn is_exhausted(error: &io::Error) -> bool {
    const EXHAUSTED: [i32; 5] = [
        libc::EMFILE,
        libc::ENFILE,
        libc::ENOBUFS,
        libc::ENOMEM,
        libc::EADDRNOTAVAIL,
    ];
    error
        .raw_os_error()
        .is_some_and(|number| EXHAUSTED.contains(&number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn add_refuses_peer_beyond_its_share() {
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        let mut peers = PeerCounts {
            max: Some(2),
            ..PeerCounts::default()
        };
        assert!(peers.add(address("10.0.0.1")) && peers.add(address("::ffff:10.0.0.1")));
        assert!(!peers.add(address("10.0.0.1")) && peers.add(address("10.0.0.2")));
        peers.remove(address("10.0.0.1"));
        assert!(peers.add(address("10.0.0.1")));
        // Hosts of one network may choose any of its addresses.
        assert!(peers.add(address("fd00::1")) && peers.add(address("fd00::2")));
        assert!(!peers.add(address("fd00::3")) && peers.add(address("fd00:0:0:1::3")));
        for gone in ["fd00::1", "fd00::2", "fd00:0:0:1::3"] {
            peers.remove(address(gone));
        }
        assert_eq!(peers.counts.len(), 2);
    }

    #[test]
    fn limited_log_passes_one_line_a_second() {
        let (say, said) = channel();
        let mut log = LimitedLog {
            sink: Some(Box::new(move |line| {
                say.send(line.to_owned()).expect("kept")
            })),
            ..LimitedLog::default()
        };
        let began = Instant::now();
        for ms in (0..2500).step_by(10) {
            log.line(began + Duration::from_millis(ms), "full");
        }
        let lines: Vec<String> = said.try_iter().collect();
        let more = "full (and 99 more failures)";
        assert_eq!(lines, ["full", more, more]);
    }
}
