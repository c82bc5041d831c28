#![no_main]

#[path = "../src/streams.rs"]
mod streams_target;

libfuzzer_sys::fuzz_target!(|script: &[u8]| {
    streams_target::ioctls(script);
});
