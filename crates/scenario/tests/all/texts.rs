//! Parts of scenarios that several tests have, and how they run.

use scenario::{RunOutcome, parse, run};

/// Two stations of `engine`, and traffic from the first to the second, which follows.
pub fn pair(engine: &str) -> String {
    format!(
        r#"
[[station]]
count = 2
engine = {{ {engine} }}

[[traffic]]
from = [0]
to = [1]"#
    )
}

/// A time limit and a slow link of a millisecond.
pub const SLOW_LINK: &str = r#"
time_limit = "200 s"
[medium]
kind = "direct"
rate = "10 Mbit/s"
delay = "1 ms"
"#;

/// Sixty messages of 30 KiB from one station to another, 5 ms away.
pub fn sixty_messages(engine: &str, faults: &str) -> String {
    format!(
        r#"
time_limit = "300 s"
[medium]
kind = "direct"
rate = "10 Mbit/s"
delay = "5 ms"
{faults}
{}
length = {{ fixed = "30 KiB" }}
interarrival = {{ fixed = "30 ms" }}
messages = 60
"#,
        pair(engine)
    )
}

/// Runs a scenario that is right.
pub fn outcome(text: &str, seed: u64) -> RunOutcome {
    let scenario = parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    run(&scenario, &[], seed, |_| {}).expect("it builds")
}
