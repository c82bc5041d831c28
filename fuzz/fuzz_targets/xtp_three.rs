#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    towpath_fuzz::v3(octets);
});
