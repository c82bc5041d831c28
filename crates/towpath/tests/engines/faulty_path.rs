//! A path that loses, repeats, damages and delays datagrams, and a look at the memory of the process, for tests that
//! may run for an hour.

use engine::SplitMix64;
use std::collections::VecDeque;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Growth that an hour may have after its first minute, KiB: what an allocator keeps. With 50,000 circuits an hour, 340
/// octets left behind by each exceed it.
const GROWTH_MAX_KIB: u64 = 16 << 10;

/// The seconds that the variable `name` of the environment asks for.
pub fn asked_span(name: &str) -> Option<Duration> {
    let asked = std::env::var(name).ok()?;
    Some(Duration::from_secs(asked.parse().expect("seconds")))
}

/// A path between one client and the server, which is at `server`.
pub struct FaultyPath {
    near: UdpSocket,
    far: UdpSocket,
    server: SocketAddr,
    /// Datagrams that others overtake: to the server or from it.
    late: VecDeque<(bool, Vec<u8>)>,
    client: Option<SocketAddr>,
    random: SplitMix64,
    faults: u64,
}

impl FaultyPath {
    pub fn new(server: SocketAddr, seed: u64) -> FaultyPath {
        let socket = || {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
            let wait = Some(Duration::from_millis(1));
            socket.set_read_timeout(wait).expect("a time-out");
            socket
        };
        FaultyPath {
            near: socket(),
            far: socket(),
            server,
            late: VecDeque::new(),
            client: None,
            random: SplitMix64::new(seed),
            faults: 0,
        }
    }

    /// Where the client finds the server.
    pub fn address(&self) -> SocketAddr {
        self.near.local_addr().expect("an address")
    }

    /// Passes datagrams on until `is_over`; the faults that it made.
    pub fn run(mut self, is_over: &AtomicBool) -> u64 {
        let mut buffer = vec![0; 65_536];
        while !is_over.load(Ordering::Relaxed) {
            let mut passed = 0;
            for _ in 0..64 {
                let Ok((len, from)) = self.near.recv_from(&mut buffer) else {
                    break;
                };
                // An empty one asks whether the port is closed, by another socket.
                if len > 0 {
                    self.client = Some(from);
                }
                self.pass(true, &buffer[..len]);
                passed += 1;
            }
            for _ in 0..64 {
                let Ok(len) = self.far.recv(&mut buffer) else {
                    break;
                };
                self.pass(false, &buffer[..len]);
                passed += 1;
            }
            // Nothing is as late as an association lasts without its peer.
            if passed == 0 {
                self.send_late();
            }
        }
        self.faults
    }

    fn pass(&mut self, to_server: bool, datagram: &[u8]) {
        let drawn = self.random.next_u64() % 100;
        self.faults += u64::from(drawn < 12);
        let mut datagram = datagram.to_vec();
        match drawn {
            0..3 => return,
            3..6 => self.send(to_server, &datagram),
            6..9 if !datagram.is_empty() => {
                let bit = self.random.next_u64() as usize % (8 * datagram.len());
                datagram[bit / 8] ^= 1 << (bit % 8);
            }
            9..12 => return self.late.push_back((to_server, datagram)),
            _ => {}
        }
        self.send(to_server, &datagram);
        if self.late.len() > 3 {
            self.send_late();
        }
    }

    /// Passes on the oldest of the datagrams that were overtaken.
    fn send_late(&mut self) {
        if let Some((to_server, late)) = self.late.pop_front() {
            self.send(to_server, &late);
        }
    }

    /// What cannot be sent is lost: the server may be away.
    fn send(&self, to_server: bool, datagram: &[u8]) {
        let sent = match (to_server, self.client) {
            (true, _) => self.far.send_to(datagram, self.server),
            (false, Some(client)) => self.near.send_to(datagram, client),
            (false, None) => return,
        };
        let _ = sent;
    }
}

/// Watches the memory of the process, in which the test is to be alone, after a minute of warming up or half of the time.
pub struct MemoryWatch {
    warm_at: Instant,
    warm_kib: Option<u64>,
}

impl MemoryWatch {
    /// Of a test that runs for `span` from now on.
    pub fn new(span: Duration) -> MemoryWatch {
        MemoryWatch {
            warm_at: Instant::now() + Duration::from_secs(60).min(span / 2),
            warm_kib: None,
        }
    }

    /// Fails when the process has grown.
    pub fn look(&mut self) {
        if Instant::now() < self.warm_at {
            return;
        }
        let now_kib = resident_kib();
        let warm_kib = *self.warm_kib.get_or_insert(now_kib);
        let grown = now_kib.saturating_sub(warm_kib);
        assert!(grown <= GROWTH_MAX_KIB, "{grown} KiB more");
    }
}

impl Drop for MemoryWatch {
    fn drop(&mut self) {
        if let Some(warm_kib) = self.warm_kib {
            eprintln!("{warm_kib} KiB, and {} at the end", resident_kib());
        }
    }
}

/// Kilobytes of the process that are in memory.
fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("a process");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let words = line.and_then(|line| line.split_whitespace().nth(1));
    words
        .and_then(|kib| kib.parse().ok())
        .expect("a number of KiB")
}
