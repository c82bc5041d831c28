#![no_main]

// What connections ask of the rules is not asked here.
#[allow(dead_code)]
#[path = "../../crates/libtowpath-sockets/src/rules.rs"]
mod rules;

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    let text = String::from_utf8_lossy(octets);
    let lines = text.lines().count();
    match rules::parse(&text) {
        Ok(read) => assert!(read.len() <= lines),
        Err(refusals) => assert!(refusals.iter().all(|one| (1..=lines).contains(&one.line))),
    }
});
