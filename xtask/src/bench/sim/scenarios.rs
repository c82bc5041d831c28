//! What the benchmark of the simulator runs.

/// Stations of an ether that have a little more to say to ten of them than it carries. Ends after
/// `messages` messages of 1 KiB, or a minute of simulated time: a thousand stations hardly get
/// anything through.
pub fn saturated(stations: usize, messages: u64) -> String {
    let receivers = (stations / 2).min(10);
    let list = |range: std::ops::Range<usize>| format!("{:?}", range.collect::<Vec<usize>>());
    let (from, to) = (
        list(0..stations - receivers),
        list(stations - receivers..stations),
    );
    let limit = if stations > 100 { "1 min" } else { "1 h" };
    format!(
        r#"
time_limit = "{limit}"
messages = {messages}
[medium]
kind = "ether10"
[[station]]
count = {stations}
engine = {{ protocol = "bare", packet = 1500 }}
[[traffic]]
from = {from}
to = {to}
length = {{ fixed = "1 KiB" }}
interarrival = {{ exponential = "950 us" }}
"#
    )
}

/// One XTP station sends `messages` messages of 64 KiB to another, as fast as a link of 1 Gbit/s
/// takes them.
pub fn bulk_xtp(messages: u64) -> String {
    format!(
        r#"
time_limit = "1 h"
[medium]
kind = "direct"
rate = "1 Gbit/s"
delay = "10 us"
[[station]]
count = 2
engine = {{ protocol = "xtp", packet = 1500 }}
[[traffic]]
from = [0]
to = [1]
length = {{ fixed = "64 KiB" }}
interarrival = {{ fixed = "540 us" }}
messages = {messages}
"#
    )
}

/// Stations of which two exchange a few messages and the others do nothing.
pub fn idle(stations: usize) -> String {
    format!(
        r#"
time_limit = "1 h"
[medium]
kind = "switch"
rate = "100 Mbit/s"
[[station]]
count = {stations}
engine = {{ protocol = "xtp" }}
[[traffic]]
from = [0]
to = [1]
length = {{ fixed = "1 KiB" }}
interarrival = {{ fixed = "1 ms" }}
messages = 100000
"#
    )
}

/// What ns-3 and we are asked to do alike.
pub struct OfferedLoad {
    /// Senders, and as many receivers.
    pub pairs: usize,
    /// Messages, a packet each.
    pub messages: u64,
    /// User bytes of each.
    pub bytes: u64,
    /// Mean time from one to the next, exponential, us.
    pub mean_us: u64,
}

/// Ten senders and ten receivers; 1472 B fill a packet. With the answers 70 % of what 10 Mbit/s
/// carry.
pub const LOAD: OfferedLoad = OfferedLoad {
    pairs: 10,
    messages: 300_000,
    bytes: 1472,
    mean_us: 1_900,
};

impl OfferedLoad {
    /// In words.
    pub fn description(&self) -> String {
        format!(
            "{} senders and as many receivers at 10 Mbit/s, {} B every {} us in the mean:",
            self.pairs, self.bytes, self.mean_us
        )
    }
}

/// The load as a scenario.
pub fn poisson(load: &OfferedLoad) -> String {
    let (from, to) = halves(2 * load.pairs);
    let OfferedLoad {
        pairs,
        messages,
        bytes,
        mean_us,
    } = load;
    format!(
        r#"
time_limit = "1 h"
[medium]
kind = "ether10"
positions = ["0 us", "1.15 us"]
[[station]]
count = {}
engine = {{ protocol = "bare", packet = 1500 }}
[[traffic]]
from = {from}
to = {to}
length = {{ fixed = {bytes} }}
interarrival = {{ exponential = "{mean_us} us" }}
messages = {messages}
"#,
        2 * pairs
    )
}

/// Numbers of the first half of the stations and of the second.
fn halves(stations: usize) -> (String, String) {
    let list = |range: std::ops::Range<usize>| format!("{:?}", range.collect::<Vec<usize>>());
    (list(0..stations / 2), list(stations / 2..stations))
}
