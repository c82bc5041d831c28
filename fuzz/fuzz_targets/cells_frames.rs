#![no_main]

#[path = "../src/cells.rs"]
mod cells;

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    let _ = cells::frames(octets);
});
