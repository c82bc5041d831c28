#![no_main]

#[path = "../src/channel.rs"]
mod channel_ends;

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    let _ = channel_ends::words(octets);
});
