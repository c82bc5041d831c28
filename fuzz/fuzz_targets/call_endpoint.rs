#![no_main]

#[path = "../src/call.rs"]
mod call;

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    let _ = call::script(octets);
});
