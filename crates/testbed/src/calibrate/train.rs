//! The rate of an empty link: more is sent than it carries, and what arrives is timed.

use crate::testbed::Testbed;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// The rate of one direction, in octets of Ethernet frames without their check sequence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// What was asked for, bits a second; None without a limit.
    pub configured_bps: Option<f64>,
    /// What came through, bits a second.
    pub measured_bps: f64,
}

/// Above this TCP fills the link, bits a second: datagrams cost too much then.
const DATAGRAMS_MAX_BPS: f64 = 1e9;

/// How long the link is filled.
const SPAN: Duration = Duration::from_millis(400);

/// A slow link is given longer, for enough frames.
const SLOW_SPAN: Duration = Duration::from_millis(1200);

/// Below this a link is slow, bits a second: 40 full frames in `SPAN`.
const SLOW_BPS: f64 = 1.2e6;

/// TCP may take this long to get up to speed.
const RAMP: Duration = Duration::from_millis(300);

/// Silence after which nothing more comes, besides the link's delay.
const SILENCE: Duration = Duration::from_millis(250);

/// Octets of Ethernet, IPv4 and UDP headers.
const HEADERS: usize = 14 + 20 + 8;

/// Octets of Ethernet, IPv4 and TCP headers, the latter with its time stamps.
const TCP_HEADERS: f64 = 14.0 + 20.0 + 32.0;

/// How much more is sent than the link should carry.
const EXCESS: f64 = 1.25;

/// Datagrams are sent in little trains this far apart.
const TICK: Duration = Duration::from_millis(1);

pub(super) fn measure(testbed: &Testbed, direction: usize) -> io::Result<Rate> {
    let config = testbed.plan().link.alone(testbed.plan().mtu)[direction];
    let configured_bps = config.rate_bps.map(|bps| bps as f64);
    let measured_bps = match configured_bps {
        Some(bps) if bps <= DATAGRAMS_MAX_BPS => datagrams(testbed, direction, bps)?,
        _ => stream(testbed, direction)?,
    };
    Ok(Rate {
        configured_bps,
        measured_bps,
    })
}

/// Datagrams a little faster than the link; what arrives after the first is timed.
fn datagrams(testbed: &Testbed, direction: usize, bps: f64) -> io::Result<f64> {
    let [from, to] = super::ends(testbed, direction);
    let (from_address, to_address) = (from.address(), to.address());
    let receiver = to.run(move || UdpSocket::bind((to_address, 0)))??;
    let sender = from.run(move || UdpSocket::bind((from_address, 0)))??;
    sender.connect(receiver.local_addr()?)?;
    let span = if bps < SLOW_BPS { SLOW_SPAN } else { SPAN };
    let full = testbed.plan().mtu as usize + 14;
    // A frame takes 10 ms of the link at most.
    let frame = ((bps / 800.0) as usize).clamp(128, full);
    receiver.set_read_timeout(Some(super::delay(testbed) + SILENCE + span / 4))?;
    let end = Instant::now() + span;
    let arrivals = std::thread::spawn(move || arrivals(&receiver, end));
    send(&sender, frame - HEADERS, bps * EXCESS, end);
    let (bytes, seconds) = arrivals
        .join()
        .map_err(|_| io::Error::other("the receiver of the calibration panicked"))?;
    if seconds <= 0.0 {
        return Err(io::Error::other("nothing came through the empty link"));
    }
    Ok(bytes as f64 * 8.0 / seconds)
}

/// Sends datagrams of `len` octets at `bps` until `end`.
fn send(socket: &UdpSocket, len: usize, bps: f64, end: Instant) {
    let message = vec![0; len];
    let per_s = bps / 8.0 / (len + HEADERS) as f64;
    let began = Instant::now();
    let mut sent = 0.0;
    while Instant::now() < end {
        let due = began.elapsed().as_secs_f64() * per_s;
        while sent < due {
            // A full buffer is as good as a full link.
            let _ = socket.send(&message);
            sent += 1.0;
        }
        std::thread::sleep(TICK);
    }
}

/// Octets of the frames after the first that arrive until a little after `end`, and the time from
/// the first to the last.
fn arrivals(socket: &UdpSocket, end: Instant) -> (usize, f64) {
    let mut buffer = vec![0; 65_536];
    let (mut bytes, mut first, mut last) = (0, None, Instant::now());
    while let Ok(len) = socket.recv(&mut buffer) {
        last = Instant::now();
        match first {
            None => first = Some(last),
            Some(_) => bytes += len + HEADERS,
        }
        if last > end {
            break;
        }
    }
    (
        bytes,
        first.map_or(0.0, |first| last.duration_since(first).as_secs_f64()),
    )
}

/// One TCP connection, timed when it is up to speed.
fn stream(testbed: &Testbed, direction: usize) -> io::Result<f64> {
    let [from, to] = super::ends(testbed, direction);
    let to_address = to.address();
    let listener = to.run(move || TcpListener::bind((to_address, 0)))??;
    let there: SocketAddr = listener.local_addr()?;
    let mut sender =
        from.run(move || TcpStream::connect_timeout(&there, Duration::from_secs(5)))??;
    let (mut receiver, _) = listener.accept()?;
    let patience = super::delay(testbed) * 4 + Duration::from_secs(1);
    receiver.set_read_timeout(Some(patience))?;
    sender.set_write_timeout(Some(patience))?;
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
    // It ends when its time is over or the receiver is gone.
    let _ = writer.join();
    let seconds = first.map_or(0.0, |first| last.duration_since(first).as_secs_f64());
    if seconds <= 0.0 {
        return Err(io::Error::other("nothing came through the empty link"));
    }
    let full = f64::from(testbed.plan().mtu) + 14.0;
    Ok(bytes as f64 * 8.0 / seconds * full / (full - TCP_HEADERS))
}
