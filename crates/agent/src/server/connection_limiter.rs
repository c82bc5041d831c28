//! Limits connections that have not authenticated yet, and log lines about them.
//!
//! When the table is full, a new connection evicts the oldest one of the source address with the
//! most connections: a flood evicts itself, and a client with a key, which needs only some round
//! trips, gets through.

use std::net::{IpAddr, Ipv6Addr, Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Unauthenticated connections at a time.
const UNAUTHENTICATED_MAX: usize = 32;

/// Of these, per source: an IPv4 address or an IPv6 /64.
const PER_SOURCE_MAX: usize = 16;

/// Minimum interval of log lines about unauthenticated peers.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// The unauthenticated connections.
#[derive(Debug, Default)]
pub(crate) struct ConnectionLimiter {
    state: Mutex<LimiterState>,
}

#[derive(Debug, Default)]
struct LimiterState {
    next: u64,
    /// Oldest first.
    conns: Vec<UnauthenticatedConn>,
    last_logged_at: Option<Instant>,
    suppressed: u64,
}

#[derive(Debug)]
struct UnauthenticatedConn {
    number: u64,
    source: IpAddr,
    /// For shutdown on eviction.
    socket: TcpStream,
}

/// An entry of the limiter, released on drop.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    limiter: Arc<ConnectionLimiter>,
    number: u64,
}

impl ConnectionLimiter {
    fn lock(&self) -> MutexGuard<'_, LimiterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits `socket` from `from`; true if another connection was evicted. Fails when no file descriptor is left.
    pub(crate) fn admit(
        self: &Arc<Self>,
        socket: &TcpStream,
        from: IpAddr,
    ) -> std::io::Result<(ConnectionSlot, bool)> {
        let socket = socket.try_clone()?;
        let from = source_prefix(from);
        let mut state = self.lock();
        let crowded = state.eviction_candidate(from);
        if let Some(at) = crowded {
            let gone = state.conns.remove(at);
            // Fails only if the peer has closed it.
            let _ = gone.socket.shutdown(Shutdown::Both);
        }
        let number = state.next;
        state.next += 1;
        state.conns.push(UnauthenticatedConn {
            number,
            source: from,
            socket,
        });
        let slot = ConnectionSlot {
            limiter: Arc::clone(self),
            number,
        };
        Ok((slot, crowded.is_some()))
    }

    /// Whether a line may be logged now, and how many were suppressed since the last, so that a
    /// flood cannot fill the disk.
    pub(crate) fn may_log(&self, now: Instant) -> Option<u64> {
        let mut state = self.lock();
        let soon = |last: Instant| now.duration_since(last) < LOG_INTERVAL;
        if state.last_logged_at.is_some_and(soon) {
            state.suppressed += 1;
            return None;
        }
        state.last_logged_at = Some(now);
        Some(std::mem::take(&mut state.suppressed))
    }
}

impl LimiterState {
    /// The connection to evict for a new one from `from`.
    fn eviction_candidate(&self, from: IpAddr) -> Option<usize> {
        let of = |from: IpAddr| self.conns.iter().filter(move |one| one.source == from);
        let whose = if of(from).count() >= PER_SOURCE_MAX {
            from
        } else if self.conns.len() >= UNAUTHENTICATED_MAX {
            let all = self.conns.iter().map(|one| one.source);
            all.max_by_key(|&from| of(from).count())?
        } else {
            return None;
        };
        self.conns.iter().position(|one| one.source == whose)
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.limiter
            .lock()
            .conns
            .retain(|one| one.number != self.number);
    }
}

fn source_prefix(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(six) => Ipv6Addr::from_bits(six.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    /// A connection: the agent's end and the peer's.
    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let there = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        (listener.accept().expect("it came").0, there)
    }

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn connection_flood_evicts_own_source() {
        let limiter = Arc::new(ConnectionLimiter::default());
        let mut client = pair();
        let (_client_stays, _) = limiter
            .admit(&client.0, address("192.0.2.1"))
            .expect("there is room");
        let mut flood = Vec::new();
        for _ in 0..UNAUTHENTICATED_MAX {
            let pair = pair();
            let entered = limiter.admit(&pair.0, address("192.0.2.2"));
            flood.push((entered.expect("there is room"), pair));
        }
        assert_eq!(
            flood.iter().filter(|one| one.0.1).count(),
            UNAUTHENTICATED_MAX - PER_SOURCE_MAX
        );
        let (_, oldest) = &mut flood[0].1;
        assert_eq!(oldest.read(&mut [0]).expect("the end"), 0);
        client.1.set_nonblocking(true).expect("an option");
        let still_there = client.1.read(&mut [0]).expect_err("nothing was said");
        assert_eq!(still_there.kind(), std::io::ErrorKind::WouldBlock);
        drop(flood);
        assert_eq!(limiter.lock().conns.len(), 1);
    }

    #[test]
    fn ipv6_prefix_counts_as_one_source() {
        let limiter = Arc::new(ConnectionLimiter::default());
        let pairs: Vec<_> = (0..2 * UNAUTHENTICATED_MAX).map(|_| pair()).collect();
        let mut held = Vec::new();
        for (at, pair) in pairs.iter().enumerate() {
            let from = address(&format!("2001:db8::{:x}:{at:x}", at % 7));
            held.push(limiter.admit(&pair.0, from).expect("there is room"));
        }
        assert_eq!(limiter.lock().conns.len(), PER_SOURCE_MAX);
        for (at, pair) in pairs.iter().enumerate() {
            let from = address(&format!("192.0.2.{at}"));
            held.push(limiter.admit(&pair.0, from).expect("there is room"));
        }
        assert_eq!(limiter.lock().conns.len(), UNAUTHENTICATED_MAX);
    }

    #[test]
    fn unauthenticated_log_rate_limited() {
        let limiter = ConnectionLimiter::default();
        let start = Instant::now();
        let later = |ms: u64| start + Duration::from_millis(ms);
        assert_eq!(limiter.may_log(later(0)), Some(0));
        assert_eq!(
            (limiter.may_log(later(1)), limiter.may_log(later(999))),
            (None, None)
        );
        assert_eq!(limiter.may_log(later(1000)), Some(2));
        assert_eq!(limiter.may_log(later(2000)), Some(0));
    }
}
