#![no_main]

#[path = "../src/xti.rs"]
#[allow(dead_code, reason = "the other target is in it")]
mod xti_target;

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    xti_target::messages(octets);
});
