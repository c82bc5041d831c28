#![no_main]

#[path = "../src/halves.rs"]
#[allow(dead_code, reason = "each target uses one of its functions")]
mod halves;

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    let _ = halves::frames(octets);
});
