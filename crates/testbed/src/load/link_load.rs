//! Cross traffic: other pairs of hosts that send over the same links.

use crate::host::Host;
use crate::testbed::Testbed;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Octets of a message, as in the study.
const MESSAGE: usize = 1024;

/// Timeout of the connects, and of the first message.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How soon a sender that waits for its next message ends.
const END_TICK: Duration = Duration::from_millis(20);

/// Pairs of hosts that send until this is dropped.
#[derive(Debug)]
pub struct LinkLoad {
    sockets: Vec<TcpStream>,
    threads: Vec<JoinHandle<()>>,
    received: Vec<Arc<AtomicU64>>,
    /// Senders that wait for their next message end.
    ends: Arc<AtomicBool>,
}

impl LinkLoad {
    /// Has `pairs` of hosts of `testbed` send messages of 1024 octets over TCP as fast as possible,
    /// or at `rate_bps` a pair, over each of the links: hosts 2 to 3, 4 to 5 and so on. The first pair is
    /// the measured one. Returns when data of each have arrived.
    ///
    /// # Errors
    ///
    /// When the testbed has too few hosts, a connect fails, or nothing arrives.
    pub fn start(testbed: &Testbed, pairs: usize, rate_bps: Option<u64>) -> io::Result<LinkLoad> {
        let gap = rate_bps.map(message_gap);
        let mut load = LinkLoad {
            sockets: Vec::new(),
            threads: Vec::new(),
            received: Vec::new(),
            ends: Arc::default(),
        };
        let mut ends = testbed.hosts().chunks_exact(2).skip(1);
        for _ in 0..pairs {
            let Some([from, to]) = ends.next() else {
                return Err(io::Error::other(
                    "the testbed has too few hosts for this link load",
                ));
            };
            for link in 0..testbed.plan().links.len() {
                load.connect_pair(from, to, link, gap)?;
            }
        }
        load.await_first_bytes()?;
        Ok(load)
    }

    /// Octets received so far by all pairs.
    pub fn received_bytes(&self) -> u64 {
        let all = self.received.iter();
        all.map(|received| received.load(Ordering::Relaxed)).sum()
    }

    fn await_first_bytes(&self) -> io::Result<()> {
        let begun = Instant::now();
        let silent = |received: &Arc<AtomicU64>| received.load(Ordering::Relaxed) == 0;
        while self.received.iter().any(silent) {
            if begun.elapsed() > CONNECT_TIMEOUT {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "nothing of the link load arrives within 10 s",
                ));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn connect_pair(
        &mut self,
        from: &Host,
        to: &Host,
        link: usize,
        gap: Option<Duration>,
    ) -> io::Result<()> {
        let address = to.address_on(link);
        let listener = to.run(move || TcpListener::bind((address, 0)))??;
        let there: SocketAddr = listener.local_addr()?;
        let sender = from.run(move || TcpStream::connect_timeout(&there, CONNECT_TIMEOUT))??;
        let (receiver, _) = listener.accept()?;
        self.sockets.push(sender.try_clone()?);
        self.sockets.push(receiver.try_clone()?);
        let ends = Arc::clone(&self.ends);
        self.threads
            .push(std::thread::spawn(move || send(sender, gap, &ends)));
        let received = Arc::default();
        self.received.push(Arc::clone(&received));
        self.threads
            .push(std::thread::spawn(move || receive(receiver, &received)));
        Ok(())
    }
}

/// From one message to the next at a rate.
fn message_gap(rate_bps: u64) -> Duration {
    Duration::from_secs_f64(MESSAGE as f64 * 8.0 / rate_bps.max(1) as f64)
}

/// Sends without a pause, or a message every `gap`. What a full link held up is not made up for.
fn send(mut socket: TcpStream, gap: Option<Duration>, ends: &AtomicBool) {
    let message = [0x5a; MESSAGE];
    let mut next = Instant::now();
    while socket.write_all(&message).is_ok() && !ends.load(Ordering::Relaxed) {
        if let Some(gap) = gap {
            next = (next + gap).max(Instant::now());
            sleep_until(next, ends);
        }
    }
}

fn sleep_until(next: Instant, ends: &AtomicBool) {
    loop {
        let left = next.saturating_duration_since(Instant::now());
        if left.is_zero() || ends.load(Ordering::Relaxed) {
            return;
        }
        std::thread::sleep(left.min(END_TICK));
    }
}

fn receive(mut socket: TcpStream, received: &AtomicU64) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(len @ 1..) = socket.read(&mut buffer) {
        received.fetch_add(len as u64, Ordering::Relaxed);
    }
}

impl Drop for LinkLoad {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for socket in &self.sockets {
            // The peer may have closed it.
            let _ = socket.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            // It ends with its socket.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gap_keeps_rate_of_messages() {
        // 8,192 bits at 750,000 a second.
        assert_eq!(message_gap(750_000).as_micros(), 10_922);
    }
}
