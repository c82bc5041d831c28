#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    let _ = towpath_fuzz::group(octets);
});
