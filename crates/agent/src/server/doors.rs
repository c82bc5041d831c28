//! Connections that have proved nothing yet, and what is said of them.
//!
//! There is room for few. One that comes when there is none takes the room of the one that has been
//! there longest, of those whose address has the most: a flood of strangers pushes out strangers, and
//! a client with a key, which needs some round trips, is in before its turn to go.

use std::net::{IpAddr, Ipv6Addr, Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Connections that have proved nothing, at a time.
const ROOM: usize = 32;

/// Of one address; of a network of 64 bits for IPv6, which one host may have whole.
const ROOM_EACH: usize = 16;

/// How often a line about strangers is written at most.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Those at the doors.
#[derive(Debug, Default)]
pub(crate) struct Doors {
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    next: u64,
    /// The oldest first.
    waiting: Vec<Waiting>,
    last_line: Option<Instant>,
    unsaid: u64,
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    from: IpAddr,
    /// To hang up with.
    socket: TcpStream,
}

/// Room at the doors, given up when it is dropped.
#[derive(Debug)]
pub(crate) struct Entering {
    doors: Arc<Doors>,
    number: u64,
}

impl Doors {
    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Room for `socket`, which came from `from`; and whether another had to go for it.
    ///
    /// # Errors
    ///
    /// When the system has no descriptor left.
    pub(crate) fn enter(
        self: &Arc<Self>,
        socket: &TcpStream,
        from: IpAddr,
    ) -> std::io::Result<(Entering, bool)> {
        let socket = socket.try_clone()?;
        let from = neighbourhood(from);
        let mut inside = self.lock();
        let crowded = inside.crowded(from);
        if let Some(at) = crowded {
            let gone = inside.waiting.remove(at);
            // One that has hung up itself is gone all the same.
            let _ = gone.socket.shutdown(Shutdown::Both);
        }
        let number = inside.next;
        inside.next += 1;
        inside.waiting.push(Waiting {
            number,
            from,
            socket,
        });
        let entering = Entering {
            doors: Arc::clone(self),
            number,
        };
        Ok((entering, crowded.is_some()))
    }

    /// Whether a line about a stranger is to be written now, and how many were not since the last:
    /// what strangers do fills no disk.
    pub(crate) fn may_say(&self, now: Instant) -> Option<u64> {
        let mut inside = self.lock();
        let soon = |last: Instant| now.duration_since(last) < LINE_EVERY;
        if inside.last_line.is_some_and(soon) {
            inside.unsaid += 1;
            return None;
        }
        inside.last_line = Some(now);
        Some(std::mem::take(&mut inside.unsaid))
    }
}

impl Inside {
    /// Who has to go so that one from `from` may come.
    fn crowded(&self, from: IpAddr) -> Option<usize> {
        let of = |from: IpAddr| self.waiting.iter().filter(move |one| one.from == from);
        let whose = if of(from).count() >= ROOM_EACH {
            from
        } else if self.waiting.len() >= ROOM {
            let all = self.waiting.iter().map(|one| one.from);
            all.max_by_key(|&from| of(from).count())?
        } else {
            return None;
        };
        self.waiting.iter().position(|one| one.from == whose)
    }
}

impl Drop for Entering {
    fn drop(&mut self) {
        self.doors
            .lock()
            .waiting
            .retain(|one| one.number != self.number);
    }
}

fn neighbourhood(address: IpAddr) -> IpAddr {
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

    /// A connection: the agent's end and the other.
    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let there = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        (listener.accept().expect("it came").0, there)
    }

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_flood_pushes_out_its_own() {
        let doors = Arc::new(Doors::default());
        let mut client = pair();
        let (_client_stays, _) = doors
            .enter(&client.0, address("192.0.2.1"))
            .expect("there is room");
        let mut flood = Vec::new();
        for _ in 0..ROOM {
            let pair = pair();
            let entered = doors.enter(&pair.0, address("192.0.2.2"));
            flood.push((entered.expect("there is room"), pair));
        }
        assert_eq!(flood.iter().filter(|one| one.0.1).count(), ROOM - ROOM_EACH);
        let (_, oldest) = &mut flood[0].1;
        assert_eq!(oldest.read(&mut [0]).expect("the end"), 0);
        client.1.set_nonblocking(true).expect("an option");
        let still_there = client.1.read(&mut [0]).expect_err("nothing was said");
        assert_eq!(still_there.kind(), std::io::ErrorKind::WouldBlock);
        drop(flood);
        assert_eq!(doors.lock().waiting.len(), 1);
    }

    #[test]
    fn many_addresses_have_room_together_and_one_network_is_one() {
        let doors = Arc::new(Doors::default());
        let pairs: Vec<_> = (0..2 * ROOM).map(|_| pair()).collect();
        let mut held = Vec::new();
        for (at, pair) in pairs.iter().enumerate() {
            let from = address(&format!("2001:db8::{:x}:{at:x}", at % 7));
            held.push(doors.enter(&pair.0, from).expect("there is room"));
        }
        assert_eq!(doors.lock().waiting.len(), ROOM_EACH);
        for (at, pair) in pairs.iter().enumerate() {
            let from = address(&format!("192.0.2.{at}"));
            held.push(doors.enter(&pair.0, from).expect("there is room"));
        }
        assert_eq!(doors.lock().waiting.len(), ROOM);
    }

    #[test]
    fn strangers_have_a_line_a_second() {
        let doors = Doors::default();
        let start = Instant::now();
        let later = |ms: u64| start + Duration::from_millis(ms);
        assert_eq!(doors.may_say(later(0)), Some(0));
        assert_eq!(
            (doors.may_say(later(1)), doors.may_say(later(999))),
            (None, None)
        );
        assert_eq!(doors.may_say(later(1000)), Some(2));
        assert_eq!(doors.may_say(later(2000)), Some(0));
    }
}
