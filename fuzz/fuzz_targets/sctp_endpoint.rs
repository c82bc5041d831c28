#![no_main]

#[path = "../src/sctp.rs"]
mod sctp;

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    let _ = sctp::script(octets);
});
