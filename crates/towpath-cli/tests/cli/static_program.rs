//! The packages' static program: it needs no library of the system, and races.

use crate::support::Scratch;
use results::{RunData, Status};
use std::path::PathBuf;
use std::process::Command;

/// Has the path of the static program, which takes minutes to build (packaging/README.md).
const VARIABLE: &str = "TOWPATH_STATIC";

/// Type of a program header that names the dynamic linker (System V ABI, ELF: PT_INTERP).
const PT_INTERP: u32 = 3;

fn static_program() -> Option<PathBuf> {
    let path = std::env::var_os(VARIABLE).map(PathBuf::from);
    if path.is_none() {
        eprintln!(
            "SKIPPED: {VARIABLE} names no static program; build one as packaging/README.md says"
        );
    }
    path
}

/// Types of the program headers of a 64-bit ELF file of this machine's byte order.
fn program_headers(elf: &[u8]) -> Vec<u32> {
    let number = |at: usize, len: usize| {
        let octets = elf[at..at + len].iter().enumerate();
        octets.fold(0, |sum, (place, octet)| {
            sum | usize::from(*octet) << (8 * place)
        })
    };
    assert_eq!(&elf[..6], b"\x7fELF\x02\x01", "64 bits, least octet first");
    let (offset, each, count) = (number(32, 8), number(54, 2), number(56, 2));
    let kind = |index| number(offset + index * each, 4) as u32;
    (0..count).map(kind).collect()
}

#[test]
fn static_program_needs_no_linker_and_races() {
    let Some(path) = static_program() else {
        return;
    };
    let headers = program_headers(&std::fs::read(&path).expect("the static program"));
    assert!(
        !headers.is_empty() && !headers.contains(&PT_INTERP),
        "{headers:?}"
    );
    let scratch = Scratch::new();
    let run = |words: &[&str]| {
        let mut command = Command::new(&path);
        command.env("TOWPATH_RACE_LOCK", "none").args(words);
        let output = command.output().expect("it starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{words:?}: {text}");
        text
    };
    assert!(run(&["--version"]).starts_with("towpath "));
    assert!(run(&["doctor"]).contains("\nbuild "));
    let out = scratch.text("run");
    let race = [
        "race", "tcp", "udp", "quic", "xtp", "sctp", "--sizes", "1KiB", "--blocks", "1",
    ];
    let options = words!("--trial 50ms --no-control --no-report --out", &out);
    run(&[&race[..], &options].concat());
    let run = RunData::read(&scratch.path("run")).expect("a result");
    let ran = run.trials.iter().filter(|trial| trial.block > 0);
    let bad: Vec<_> = ran.filter(|trial| trial.status == Status::Failed).collect();
    assert!(!run.trials.is_empty() && bad.is_empty(), "{bad:?}");
}
