#![no_main]

#[path = "../src/shortcut.rs"]
mod shortcut;

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    let _ = shortcut::datagrams(octets);
});
