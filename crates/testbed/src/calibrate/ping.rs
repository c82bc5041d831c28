//! RTT of an empty link.

use super::MeasuredLink;
use crate::plan::LinkPlan;
use link::LinkConfig;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Samples at most, and for how long.
const SAMPLES: usize = 100;
const SPAN: Duration = Duration::from_millis(600);

/// Samples at least, for a meaningful median.
const SAMPLES_MIN: usize = 5;

/// Pause between echoes on an Ethernet: the longest gap there is 1 ms.
const ETHER_PAUSE: Duration = Duration::from_millis(3);

/// Timeout of an echo.
const REPLY_TIMEOUT: Duration = Duration::from_secs(3);

/// Octets of an echo's Ethernet, IP and ICMP headers, and of its payload.
const HEADERS: u64 = 14 + 20 + 8;
const PAYLOAD: usize = 8;

/// Octets of an IP header without options; raw sockets receive it too.
const IP_HEADER_LEN: usize = 20;

/// RTT between two hosts, with replies by the peer's kernel, so that no process has to wake there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredRtt {
    /// Both delays and both serialisation times.
    pub configured_us: f64,
    /// Median.
    pub median_us: f64,
    /// 5th percentile.
    pub low_us: f64,
    /// 95th percentile.
    pub high_us: f64,
    /// Number of samples.
    pub samples: usize,
}

pub(super) fn measure(link: MeasuredLink<'_>) -> io::Result<MeasuredRtt> {
    let [first, second] = link.sender_and_receiver(0);
    let to = SocketAddr::new(link.address(second), 0);
    let socket = first.run(move || open(to))??;
    let mut spans = Vec::new();
    let end = Instant::now() + SPAN;
    // An Ethernet may delay a frame after an earlier one to the same host.
    let pause = match link.plan() {
        LinkPlan::Ether(kind) if kind.config().destination_gap_ps > 0 => ETHER_PAUSE,
        _ => Duration::ZERO,
    };
    while spans.len() < SAMPLES && (spans.len() < SAMPLES_MIN || Instant::now() < end) {
        std::thread::sleep(pause);
        spans.push(echo(&socket, spans.len() as u16)?.as_secs_f64() * 1e6);
    }
    spans.sort_unstable_by(f64::total_cmp);
    let at = |part: f64| spans[((spans.len() - 1) as f64 * part).round() as usize];
    Ok(MeasuredRtt {
        configured_us: configured_us(link),
        median_us: at(0.5),
        low_us: at(0.05),
        high_us: at(0.95),
        samples: spans.len(),
    })
}

fn open(to: SocketAddr) -> io::Result<OwnedFd> {
    let socket = rustix::net::socket_with(
        AddressFamily::INET,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(ipproto::ICMP),
    )?;
    sockopt::set_socket_timeout(&socket, Timeout::Recv, Some(REPLY_TIMEOUT))?;
    rustix::net::connect(&socket, &to)?;
    Ok(socket)
}

/// Measures one round trip.
fn echo(socket: &OwnedFd, number: u16) -> io::Result<Duration> {
    let message = request(number);
    let began = Instant::now();
    rustix::net::send(socket, &message, SendFlags::empty())?;
    let mut buffer = [0u8; 128];
    loop {
        let received = rustix::net::recv(socket, &mut buffer[..], RecvFlags::empty());
        let span = began.elapsed();
        let (len, _) = received.map_err(|_| {
            io::Error::new(
                io::ErrorKind::TimedOut,
                "the empty link carries no echo in 3 s",
            )
        })?;
        let answer = buffer[..len].get(IP_HEADER_LEN..).unwrap_or_default();
        // Type 0 is an echo reply; the sequence number identifies the request.
        if answer.first() == Some(&0) && answer.get(6..8) == Some(&number.to_be_bytes()) {
            return Ok(span);
        }
    }
}

/// An echo request (RFC 792): type 8, code 0, checksum, identifier, sequence number, payload of
/// zeros.
fn request(number: u16) -> [u8; 8 + PAYLOAD] {
    const TYPE: u16 = 8 << 8;
    let mut octets = [0; 8 + PAYLOAD];
    octets[0..2].copy_from_slice(&TYPE.to_be_bytes());
    octets[6..8].copy_from_slice(&number.to_be_bytes());
    let sum = u32::from(TYPE) + u32::from(number);
    let folded = (sum & 0xffff) + (sum >> 16);
    octets[2..4].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    octets
}

fn configured_us(link: MeasuredLink<'_>) -> f64 {
    let bits = (HEADERS + PAYLOAD as u64) * 8;
    let directions = link.directions();
    let one = |config: LinkConfig| {
        let on_link = config
            .rate_bps
            .map_or(0.0, |bps| bits as f64 * 1e6 / bps as f64);
        config.delay_ps as f64 / 1e6 + on_link
    };
    directions.map(one).iter().sum()
}
