//! Files of rules with mutated contents: read or refused by their lines, never a panic in the program that they are for.

#[path = "../../../../fuzz/src/text.rs"]
mod text;

use super::{PairCall, RULES_MAX, Rule, Service, parse};
use text::{Draws, mutated};

const GOOD: &str = "# a comment\ninet 10.0.0.0/8 6379-6381 xtp,shortcut=on\ninet6 fd00::/16 * /dev/tcp,way=sockmod\n\
                    * 1.2.3.4 81 /dev/sctp_t\n* * 5000-65535 /dev/udp,deferred=on\npipe * * /dev/pipe\nunix * * /dev/pipe\n\
                    * * * kernel\n";

#[test]
fn mutated_rules_are_read_or_refused_by_their_lines() {
    assert!(parse(GOOD).is_ok());
    for seed in 0..3000 {
        let text = mutated(GOOD, &mut Draws(seed));
        let lines = text.lines().count();
        match parse(&text) {
            Ok(rules) => {
                assert!(rules.len() <= RULES_MAX.min(lines), "seed {seed}");
                for address in ["10.1.2.3:6380", "[fd00::1]:65535"] {
                    let address = address.parse().expect("an address");
                    let matches = |rule: &Rule| rule.matches(Service::Streams, address);
                    let is_of_pair = |rule: &Rule| rule.is_about(PairCall::Pipe);
                    let both = rules.iter().any(|rule| matches(rule) && is_of_pair(rule));
                    assert!(!both, "seed {seed}");
                }
            }
            Err(refusals) => {
                let in_file = |line: usize| (1..=lines).contains(&line);
                assert!(!refusals.is_empty(), "seed {seed}");
                assert!(refusals.iter().all(|one| in_file(one.line)), "seed {seed}");
            }
        }
    }
}
