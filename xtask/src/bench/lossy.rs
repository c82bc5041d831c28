//! XTP over a lossy long link: 100 Mbit/s, 20 ms each way, 1 % loss.

use super::bar::{Bar, BenchTarget};
use super::compare::{Measure, metric_of};
use super::trial_runner::{TrialRequest, TrialRunner};

/// The emulated link. Its queue absorbs the bursts of a sender that is paced at the link's rate.
const LINK: &str = "rate=100mbit,delay=20ms,loss=1%,queue=500kB";

/// Seconds of each trial: a hundred round trips.
const SPAN_S: f64 = 4.0;

/// Trials; the median is used.
const TRIALS: usize = 3;

/// Contestants without a target: those with congestion control.
const ROWS: [(&str, &str); 6] = [
    ("xtp-lossy-newreno", "xtp,congestion=newreno,queue=1M"),
    ("xtp-lossy-ledbat", "xtp,congestion=ledbat,queue=1M"),
    ("xtp-lossy-bbr", "xtp,congestion=bbr,queue=4M"),
    ("tcp-lossy-cubic", "tcp,congestion=cubic"),
    ("tcp-lossy-bbr", "tcp,congestion=bbr"),
    ("quic-lossy", "quic"),
];

/// Mbit/s of user bytes with XTP paced at the link's rate: frames carry 1440 of 1514 octets, and 1
/// % are retransmitted.
pub fn bar(ours: &mut TrialRunner) -> Bar {
    let measure = mbps("xtp,rate=95mbit,burst=32k,queue=4M");
    let found: Result<Vec<f64>, String> = (0..TRIALS).map(|_| measure(ours)).collect();
    Bar::of_median(
        "xtp-lossy",
        found,
        "Mbit/s",
        BenchTarget::at_least(87.0, 92.0),
    )
}

/// The other contestants on the same link, Mbit/s.
pub fn rows() -> impl Iterator<Item = (&'static str, Measure)> {
    ROWS.into_iter()
        .map(|(name, transport)| (name, mbps(transport)))
}

fn mbps(transport: &'static str) -> Measure {
    let more = ["--link", LINK, "--no-calibration"];
    let question = TrialRequest::new(transport, "throughput", 16 << 10, SPAN_S, &more);
    metric_of(question, "mbit_per_s")
}
