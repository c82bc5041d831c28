#![no_main]

#[path = "../src/vmtp.rs"]
mod vmtp;

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    vmtp::parse(octets);
});
