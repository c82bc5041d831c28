//! Scenarios of the simulator's benchmark.

/// Stations of an Ethernet that offer ten of them slightly more than it carries. Ends after
/// `messages` messages of 1 KiB, or a minute of simulated time: with a thousand stations hardly any
/// frame gets through.
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

/// One XTP station sends `messages` messages of 64 KiB to another at the rate of a 1 Gbit/s link.
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

/// Stations of which two exchange messages and the others are idle.
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

/// The load that both ns-3 and our simulator run.
pub struct OfferedLoad {
    /// Senders, and as many receivers.
    pub pairs: usize,
    /// Messages, a packet each.
    pub messages: u64,
    /// User bytes of each.
    pub bytes: u64,
    /// Mean inter-arrival time (exponential), us.
    pub mean_us: u64,
}

/// Ten senders and ten receivers; 1472 B fill a packet. With the replies it is 70 % of 10 Mbit/s.
pub const LOAD: OfferedLoad = OfferedLoad {
    pairs: 10,
    messages: 300_000,
    bytes: 1472,
    mean_us: 1_900,
};

impl OfferedLoad {
    /// A description for the note.
    pub fn description(&self) -> String {
        format!(
            "{} senders and as many receivers at 10 Mbit/s, {} B every {} us on average:",
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

/// Station numbers of the first half and of the second half.
fn halves(stations: usize) -> (String, String) {
    let list = |range: std::ops::Range<usize>| format!("{:?}", range.collect::<Vec<usize>>());
    (list(0..stations / 2), list(stations / 2..stations))
}
