#![no_main]

#[path = "../src/study.rs"]
mod study_files;

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    study_files::study(octets);
});
