#![no_main]

#[path = "../src/xti.rs"]
mod xti_target;

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    xti_target::messages(octets);
});
