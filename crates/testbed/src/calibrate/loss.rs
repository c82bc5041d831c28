//! Loss of an empty link, end to end and by the emulator's counters.

use super::MeasuredLink;
use crate::plan::LinkPlan;
use std::collections::BTreeSet;
use std::io;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

/// Datagrams sent at most, and for how long.
const DATAGRAMS: u32 = 2000;
const SPAN: Duration = Duration::from_millis(800);

/// Silence after which nothing more is expected, besides the link's delay.
const SILENCE: Duration = Duration::from_millis(150);

/// Burst limit, datagrams: a receive buffer holds five times as many.
const BURST: u32 = 50;

/// Octets of a frame with a number.
const FRAME: f64 = 14.0 + 20.0 + 8.0 + 4.0;

/// Part of the link's rate that is used, so that its queue stays empty.
const LOAD: f64 = 0.5;

/// Datagrams a second on a link without a rate.
const PER_S: f64 = 20_000.0;

/// Standard deviations that hold 99.9 % of a normal distribution.
const Z: f64 = 3.2905;

/// Measured loss of one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredLoss {
    /// Configured loss, from 0 to 1.
    pub configured: f64,
    /// Frames sent.
    pub sent: u64,
    /// Frames that the emulator lost, dropped or cut.
    pub counted: u64,
    /// Datagrams that did not arrive, receive buffer drops excluded.
    pub missing: u64,
    /// Frames that the emulator corrupted; most are discarded on arrival.
    pub corrupted: u64,
    /// Variance inflation for bursts of loss; 1 for independent losses.
    pub spread: f64,
}

impl MeasuredLoss {
    /// 99.9 % confidence interval of the loss (Wilson).
    pub fn interval(&self) -> (f64, f64) {
        let n = self.sent.max(1) as f64 / self.spread;
        let part = self.counted as f64 / self.sent.max(1) as f64;
        let z2 = Z * Z / n;
        let centre = (part + z2 / 2.0) / (1.0 + z2);
        let half = Z / (1.0 + z2) * (part * (1.0 - part) / n + z2 / (4.0 * n)).sqrt();
        (centre - half, centre + half)
    }

    /// The deviation from the configuration, if any.
    pub(super) fn deviation(&self) -> Option<String> {
        let most = self.counted + self.corrupted;
        if !(self.counted..=most).contains(&self.missing) {
            return Some(format!(
                "{} datagrams did not arrive, the link lost {}",
                self.missing, self.counted
            ));
        }
        let (low, high) = self.interval();
        let outside = self.configured < low || self.configured > high;
        outside.then(|| {
            format!(
                "the link lost {} of {}, configured {} %",
                self.counted,
                self.sent,
                self.percent()
            )
        })
    }

    /// Configured loss in per cent, without floating-point residue.
    fn percent(&self) -> f64 {
        (self.configured * 1e6).round() / 1e4
    }

    /// The result as a text.
    pub(super) fn text(&self) -> String {
        let (low, high) = self.interval();
        format!(
            "{} of {} lost, {} did not arrive; configured {} %, the count says {:.2} to {:.2} % (99.9 %)",
            self.counted,
            self.sent,
            self.missing,
            self.percent(),
            low.max(0.0) * 100.0,
            high * 100.0
        )
    }
}

pub(super) fn measure(
    link: MeasuredLink<'_>,
    direction: usize,
    seed: u64,
) -> io::Result<Option<MeasuredLoss>> {
    let config = link.directions()[direction];
    // A schedule would change the link during the measurement, and a kernel link has no such
    // counters.
    let uncounted = link.plan().has_schedule() || matches!(link.plan(), LinkPlan::Kernel(_));
    if config.loss_mean() == 0.0 || uncounted {
        return Ok(None);
    }
    let [from, to] = link.sender_and_receiver(direction);
    let (from_address, to_address) = (link.address(from), link.address(to));
    let receiver = to.run(move || UdpSocket::bind((to_address, 0)))??;
    let sender = from.run(move || UdpSocket::bind((from_address, 0)))??;
    sender.connect(receiver.local_addr()?)?;
    receiver.set_read_timeout(Some(link.max_delay() + SILENCE))?;
    link.testbed.begin(seed);
    let socket = receiver.try_clone()?;
    let seen = std::thread::spawn(move || receive_numbers(&socket));
    let per_s = config
        .rate_bps
        .map_or(PER_S, |bps| (bps as f64 * LOAD / 8.0 / FRAME).min(PER_S));
    let sent = send(&sender, per_s);
    let seen = seen
        .join()
        .map_err(|_| io::Error::other("the receiver of the calibration panicked"))?;
    let port = receiver.local_addr()?.port();
    let no_room = to.run(move || drops(port))?;
    drop(receiver);
    let reports = link.testbed.end();
    let report = reports[link.link].get(direction);
    let report = report.copied().unwrap_or_default();
    let runs = config
        .bursts
        .map_or(1.0, |bursts| 1e6 / f64::from(bursts.to_good_ppm.max(1)));
    Ok(Some(MeasuredLoss {
        configured: config.loss_mean(),
        sent: u64::from(sent),
        counted: report.link.lost + report.link.dropped + report.link.cut,
        missing: u64::from(sent).saturating_sub(seen.len() as u64 + no_room),
        corrupted: report.link.corrupted,
        spread: (2.0 * runs - 1.0).max(1.0),
    }))
}

/// Sends numbered datagrams, evenly spaced; gives their count.
fn send(socket: &UdpSocket, per_s: f64) -> u32 {
    let began = Instant::now();
    let mut sent = 0;
    while sent < DATAGRAMS && began.elapsed() < SPAN {
        let due = began.elapsed().as_secs_f64() * per_s;
        let burst_end = sent + BURST;
        while f64::from(sent) < due && sent < DATAGRAMS.min(burst_end) {
            if socket.send(&sent.to_le_bytes()).is_err() {
                return sent;
            }
            sent += 1;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    sent
}

/// Receive buffer drops of the UDP socket at `port` of the calling thread's host.
fn drops(port: u16) -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/udp").unwrap_or_default();
    drops_in(&text, port)
}

/// Parses lines `number: address:port ... drops` of /proc/net/udp.
fn drops_in(text: &str, port: u16) -> u64 {
    let end = format!(":{port:04X}");
    let own = text.lines().find(|line| {
        let local = line.split_whitespace().nth(1);
        local.is_some_and(|local| local.ends_with(&end))
    });
    let last = own.and_then(|line| line.split_whitespace().last());
    last.and_then(|drops| drops.parse().ok()).unwrap_or(0)
}

/// The numbers that arrived, each once.
fn receive_numbers(socket: &UdpSocket) -> BTreeSet<u32> {
    let mut seen = BTreeSet::new();
    let mut buffer = [0; 16];
    while let Ok(len) = socket.recv(&mut buffer) {
        seen.extend(buffer[..len].try_into().map(u32::from_le_bytes));
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn losses(counted: u64, missing: u64, spread: f64) -> MeasuredLoss {
        MeasuredLoss {
            configured: 0.01,
            sent: 2000,
            counted,
            missing,
            corrupted: 0,
            spread,
        }
    }

    #[test]
    fn loss_count_mismatch_reported() {
        assert_eq!(losses(20, 20, 1.0).deviation(), None);
        let said = losses(20, 21, 1.0).deviation().expect("a complaint");
        assert!(said.contains("21 datagrams did not arrive, the link lost 20"));
    }

    #[test]
    fn socket_drop_count_parsed() {
        let text = "  sl  local_address rem_address   st drops\n\
                    1: 0200 4D0A:0016 0 07 9\n 2: 02004D0A:1F90 00000000:0000 07 00 17\n";
        assert_eq!(drops_in(text, 8080), 17);
        assert_eq!(drops_in(text, 8081), 0);
    }

    #[test]
    fn configured_loss_within_confidence_interval() {
        // 20 expected, standard deviation 4.4: 45 are too many, unless they come in bursts.
        assert!(losses(45, 45, 1.0).deviation().is_some());
        assert_eq!(losses(45, 45, 9.0).deviation(), None);
        let (low, high) = losses(20, 20, 1.0).interval();
        assert!(low < 0.01 && high > 0.01 && low > 0.003 && high < 0.03);
    }
}
