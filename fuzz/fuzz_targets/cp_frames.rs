#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    let _ = towpath::files::decode_tree_frames(octets);
});
