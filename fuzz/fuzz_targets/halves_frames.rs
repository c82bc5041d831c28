#![no_main]

#[path = "../src/halves.rs"]
mod halves;

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    let _ = halves::frames(octets);
});
