#![no_main]

#[path = "../../crates/libtowpath-sockets/src/rules.rs"]
mod rules;

use rules::{PairCall, Service};

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    let text = String::from_utf8_lossy(octets);
    let lines = 1..=text.lines().count();
    match rules::parse(&text) {
        Ok(read) => {
            for rule in &read {
                assert!(lines.contains(&rule.line));
                for address in ["10.1.2.3:80", "[fd00::1]:65535"] {
                    let address = address.parse().expect("an address");
                    let services = [Service::Streams, Service::Datagrams];
                    let is_of_internet = services.iter().any(|one| rule.matches(*one, address));
                    let calls = [PairCall::Pipe, PairCall::SocketPair];
                    assert!(!(is_of_internet && calls.iter().any(|one| rule.is_about(*one))));
                }
            }
        }
        Err(refusals) => {
            let named = |one: &rules::Refusal| lines.contains(&one.line) && !one.reason.is_empty();
            assert!(!refusals.is_empty() && refusals.iter().all(named));
        }
    }
});
