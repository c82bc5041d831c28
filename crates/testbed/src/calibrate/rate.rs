//! Rate of an empty link: it is overloaded, and arrivals are timed.

use super::MeasuredLink;
use crate::host::interface_name;
use crate::sys;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Rate of one direction, in octets of Ethernet frames without FCS.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredRate {
    /// Configured rate, bit/s; None if unlimited.
    pub configured_bps: Option<f64>,
    /// Measured rate, bit/s.
    pub measured_bps: f64,
}

/// Length of the measurement.
const SPAN: Duration = Duration::from_millis(400);

/// Length on a slow link, for enough frames.
const SLOW_SPAN: Duration = Duration::from_millis(1200);

/// Below this rate a link is slow, bit/s: 40 full frames in `SPAN`.
const SLOW_BPS: f64 = 1.2e6;

/// Time for TCP slow start.
const RAMP: Duration = Duration::from_millis(300);

/// Silence after which nothing more is expected, besides the link's delay.
const SILENCE: Duration = Duration::from_millis(30);

/// Timeout of the first datagram, besides the link's delay.
const FIRST_DATAGRAM_TIMEOUT: Duration = Duration::from_secs(3);

/// Timeout of the wait for datagrams still in flight.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// How often the counters are polled.
const POLL_INTERVAL: Duration = Duration::from_micros(250);

/// Time to settle after the first datagram.
const SETTLE: Duration = Duration::from_millis(40);

/// Limits of one send call: a part of a second of the link's rate, and a number of datagrams.
const CALL_PER_S: f64 = 2000.0;
const CALL_MAX: usize = 40;

/// Octets of Ethernet, IPv4 and UDP headers.
const HEADERS: usize = 14 + 20 + 8;

/// Octets of user data in one send call at most.
const DATAGRAM_MAX: usize = 65_000;

/// Octets of Ethernet, IPv4 and TCP headers, with TCP timestamps.
const TCP_HEADERS: f64 = 14.0 + 20.0 + 32.0;

/// Offered load relative to the configured rate.
const EXCESS: f64 = 1.25;

/// Nice value of the sender, if permitted.
const PRIORITY: i32 = -10;

/// Interval of the datagram trains.
const TICK: Duration = Duration::from_millis(1);

pub(super) fn measure(link: MeasuredLink<'_>, direction: usize) -> io::Result<MeasuredRate> {
    let config = link.directions()[direction];
    let configured_bps = config.rate_bps.map(|bps| bps as f64);
    let measured_bps = match configured_bps {
        Some(bps) => udp_rate(link, direction, bps)?,
        None => tcp_rate(link, direction)?,
    };
    Ok(MeasuredRate {
        configured_bps,
        measured_bps,
    })
}

/// Offers datagrams a little faster than the link. The receiving host's kernel counts them, so that
/// no process has to keep up.
fn udp_rate(link: MeasuredLink<'_>, direction: usize, bps: f64) -> io::Result<f64> {
    let [from, to] = link.sender_and_receiver(direction);
    let (from_address, to_address) = (link.address(from), link.address(to));
    let receiver = to.run(move || UdpSocket::bind((to_address, 0)))??;
    let sender = from.run(move || UdpSocket::bind((from_address, 0)))??;
    sender.connect(receiver.local_addr()?)?;
    // Without GRO datagrams are handled one by one.
    let _ = sys::enable_udp_gro(&receiver);
    let span = if bps < SLOW_BPS { SLOW_SPAN } else { SPAN };
    let full = link.testbed.plan().mtu as usize + 14;
    // A frame takes at most 10 ms of the link.
    let len = ((bps / 800.0) as usize).clamp(128, full) - HEADERS;
    let call = (bps / 8.0 / CALL_PER_S / (len + HEADERS) as f64) as usize;
    let call = call.min(CALL_MAX).min(DATAGRAM_MAX / len).max(1);
    let together =
        u16::try_from(len).is_ok_and(|len| sys::enable_udp_segment(&sender, len).is_ok());
    let call = if together { call } else { 1 };
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let sending = std::thread::spawn(move || send(&sender, len, call, bps * EXCESS, &flag));
    let (delay, number) = (link.max_delay(), link.link);
    let arrived = to.run(move || measure_span(number, delay, span))?;
    stop.store(true, Ordering::Relaxed);
    // It ends with the stop flag.
    let _ = sending.join();
    // Keep the socket until all have arrived: an ICMP port unreachable would use the reverse
    // direction.
    to.run(move || await_silence(number, delay))?;
    drop(receiver);
    let (before, after) = arrived?;
    Ok(after.wire_bytes(&before, len) * 8.0 / after.at.duration_since(before.at).as_secs_f64())
}

/// Sends datagrams of `len` octets at `bps`, `call` per send call, until `stop`.
fn send(socket: &UdpSocket, len: usize, call: usize, bps: f64, stop: &AtomicBool) {
    // On a busy machine the sender must not be preempted for long.
    let _ = rustix::process::setpriority_process(None, PRIORITY);
    let message = vec![0; len * call];
    let per_s = bps / 8.0 / ((len + HEADERS) * call) as f64;
    let began = Instant::now();
    let mut sent = 0.0;
    while !stop.load(Ordering::Relaxed) {
        let due = began.elapsed().as_secs_f64() * per_s;
        while sent < due && !stop.load(Ordering::Relaxed) {
            // A full send buffer keeps the link full too.
            let _ = socket.send(&message);
            sent += 1.0;
        }
        std::thread::sleep(TICK);
    }
}

/// Receive counters of an interface.
#[derive(Clone, Copy, Debug, PartialEq)]
struct InterfaceCounts {
    at: Instant,
    bytes: u64,
    packets: u64,
}

impl InterfaceCounts {
    /// Reads those of the calling thread's host on link number `link`.
    fn now(link: usize) -> io::Result<InterfaceCounts> {
        let text = std::fs::read_to_string("/proc/thread-self/net/dev")?;
        let at = Instant::now();
        counts(&text, &interface_name(link))
            .map(|(bytes, packets)| InterfaceCounts { at, bytes, packets })
            .ok_or_else(|| io::Error::other("the interface counts nothing"))
    }

    /// Wire octets since `before` of datagrams of `len` octets, with headers for each, even if GRO
    /// merged them.
    fn wire_bytes(&self, before: &InterfaceCounts, len: usize) -> f64 {
        let packets = (self.packets - before.packets) as f64;
        let user = (self.bytes - before.bytes) as f64 - packets * HEADERS as f64;
        user * (1.0 + HEADERS as f64 / len as f64)
    }
}

/// Octets and packets that an interface received, from /proc/net/dev.
fn counts(text: &str, interface: &str) -> Option<(u64, u64)> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let (_, numbers) = lines.find(|(name, _)| name.trim() == interface)?;
    let mut numbers = numbers.split_whitespace();
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Counters at two arrivals about `span` apart.
fn measure_span(
    link: usize,
    delay: Duration,
    span: Duration,
) -> io::Result<(InterfaceCounts, InterfaceCounts)> {
    let next_arrival = |seen, limit| next_arrival(link, seen, limit);
    next_arrival(InterfaceCounts::now(link)?, delay + FIRST_DATAGRAM_TIMEOUT)?;
    std::thread::sleep(SETTLE);
    let before = next_arrival(InterfaceCounts::now(link)?, FIRST_DATAGRAM_TIMEOUT)?;
    let mut last = before;
    while last.at.duration_since(before.at) < span {
        last = next_arrival(last, FIRST_DATAGRAM_TIMEOUT)?;
    }
    Ok((before, last))
}

/// Counters at the next arrival after `seen`.
fn next_arrival(
    link: usize,
    seen: InterfaceCounts,
    limit: Duration,
) -> io::Result<InterfaceCounts> {
    let end = Instant::now() + limit;
    loop {
        let now = InterfaceCounts::now(link)?;
        if now.bytes > seen.bytes {
            return Ok(now);
        }
        if Instant::now() > end {
            return Err(io::Error::other("nothing came through the empty link"));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Waits until nothing more arrives.
fn await_silence(link: usize, delay: Duration) {
    let end = Instant::now() + delay + DRAIN_TIMEOUT;
    while Instant::now() < end {
        let Ok(seen) = InterfaceCounts::now(link) else {
            return;
        };
        std::thread::sleep(delay + SILENCE);
        if InterfaceCounts::now(link).is_ok_and(|now| now.packets == seen.packets) {
            return;
        }
    }
}

/// The rate of one TCP connection after slow start.
fn tcp_rate(link: MeasuredLink<'_>, direction: usize) -> io::Result<f64> {
    let [from, to] = link.sender_and_receiver(direction);
    let to_address = link.address(to);
    let listener = to.run(move || TcpListener::bind((to_address, 0)))??;
    let there: SocketAddr = listener.local_addr()?;
    let mut sender =
        from.run(move || TcpStream::connect_timeout(&there, Duration::from_secs(5)))??;
    let (mut receiver, _) = listener.accept()?;
    let timeout = link.max_delay() * 4 + Duration::from_secs(1);
    receiver.set_read_timeout(Some(timeout))?;
    sender.set_write_timeout(Some(timeout))?;
    let end = Instant::now() + RAMP + SPAN;
    let writer = std::thread::spawn(move || {
        let block = vec![0; 256 << 10];
        while Instant::now() < end && sender.write_all(&block).is_ok() {}
    });
    let mut buffer = vec![0; 1 << 20];
    let ramp_end = Instant::now() + RAMP;
    let (mut bytes, mut first) = (0usize, None);
    let mut last = Instant::now();
    while let Ok(len) = receiver.read(&mut buffer) {
        last = Instant::now();
        if len == 0 || last > end {
            break;
        }
        match first {
            None if last > ramp_end => first = Some(last),
            None => {}
            Some(_) => bytes += len,
        }
    }
    drop(receiver);
    // It ends at its time or with the receiver.
    let _ = writer.join();
    let seconds = first.map_or(0.0, |first| last.duration_since(first).as_secs_f64());
    if seconds <= 0.0 {
        return Err(io::Error::other("nothing came through the empty link"));
    }
    let full = f64::from(link.testbed.plan().mtu) + 14.0;
    Ok(bytes as f64 * 8.0 / seconds * full / (full - TCP_HEADERS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_bytes_add_header_per_datagram() {
        let text =
            "Inter-| Receive\n face |bytes packets errs\n    lo: 7 1 0\n  eth0: 1042000 20 0 0\n";
        assert_eq!(counts(text, "eth0"), Some((1_042_000, 20)));
        assert_eq!(counts("lo: 1 2\n", "eth0"), None);
        assert_eq!(counts("eth10: 1 2\n", "eth1"), None);
        let at = Instant::now();
        let none = InterfaceCounts {
            at,
            bytes: 0,
            packets: 0,
        };
        // Ten datagrams of 1000 octets, single and merged.
        let one_by_one = InterfaceCounts {
            at,
            bytes: 10_420,
            packets: 10,
        };
        let as_one = InterfaceCounts {
            at,
            bytes: 10_042,
            packets: 1,
        };
        assert!((one_by_one.wire_bytes(&none, 1000) - 10_420.0).abs() < 1e-6);
        assert!((as_one.wire_bytes(&none, 1000) - 10_420.0).abs() < 1e-6);
    }
}
