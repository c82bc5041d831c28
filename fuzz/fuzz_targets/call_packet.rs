#![no_main]

#[path = "../src/call.rs"]
#[allow(dead_code, reason = "each target uses one of its functions")]
mod call;

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    call::packet(octets);
});
