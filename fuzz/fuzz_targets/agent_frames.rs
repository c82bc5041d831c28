#![no_main]

#[path = "../src/session.rs"]
mod session;

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    session::frames(octets);
});
