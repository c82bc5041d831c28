//! A player of packetdrill's scripts for SCTP over the engine, in virtual time.
//!
//! A script ([`script`]) injects packets, names those that are to come, and calls sockets ([`sockets`]); the tags and
//! TSNs of the engine are learnt from its INIT or INIT-ACK ([`pattern`], [`player`]). The public suites are not part
//! of this project: `TOWPATH_PACKETDRILL` names a folder that holds them,
//!
//!     TOWPATH_PACKETDRILL=~/suites cargo test -p towpath-engine-sctp --test all packetdrill -- --nocapture
//!
//! which says of each script whether it passed. Scripts know two systems, FreeBSD and Linux; one passes if the
//! engine does what it says of either.

mod pattern;
mod player;
mod script;
mod settings;
mod sockets;
mod value;

use player::{Verdict, play};
use std::path::{Path, PathBuf};

/// The systems that scripts have `#ifdef`s for.
const SYSTEMS: [&str; 2] = ["FreeBSD", "Linux"];

/// The best verdict of `text` as a script for each system.
fn best_verdict(text: &str) -> Verdict {
    let mut verdicts: Vec<Verdict> = SYSTEMS.iter().map(|system| play(text, system)).collect();
    let rank = |verdict: &Verdict| match verdict {
        Verdict::Passed => 0,
        Verdict::Failed(_) => 1,
        Verdict::NotApplicable(_) => 2,
    };
    verdicts.sort_by_key(rank);
    verdicts.swap_remove(0)
}

/// All scripts below `folder`, by name.
fn scripts(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        match path.is_dir() {
            true => found.extend(scripts(&path)),
            false if path.extension().is_some_and(|kind| kind == "pkt") => found.push(path),
            false => {}
        }
    }
    found.sort();
    found
}

/// The project's own scripts.
const OWN: [&str; 6] = [
    include_str!("scripts/answers_and_is_shut_down.pkt"),
    include_str!("scripts/opens_and_repeats.pkt"),
    include_str!("scripts/all_arrives_without_i_forward_tsn.pkt"),
    include_str!("scripts/fragments_that_differ_abort.pkt"),
    include_str!("scripts/no_association_by_multicast.pkt"),
    include_str!("scripts/window_waits_for_the_front.pkt"),
];

#[test]
fn own_scripts_pass() {
    for script in OWN {
        assert_eq!(best_verdict(script), Verdict::Passed, "{script}");
    }
}

/// Each line of the first own script that says what the engine does, said wrongly.
#[test]
fn scripts_that_say_something_else_fail() {
    let wrong = [
        ("SHUTDOWN_ACK[flgs=0]", "SHUTDOWN_ACK[flgs=1]"),
        (
            "COOKIE_ACK[flgs=0]",
            "COOKIE_ACK[flgs=0]; SHUTDOWN_ACK[flgs=0]",
        ),
        (
            "cum_tsn=103, a_rwnd=..., gaps=[], dups=[]",
            "cum_tsn=102, a_rwnd=..., gaps=[], dups=[]",
        ),
        ("gaps=[2:2]", "gaps=[2:3]"),
        ("gaps=[2:2], dups=[]", "gaps=[2:2], dups=[101]"),
        ("+0.2 > sctp: SACK", "+0.1 > sctp: SACK"),
        ("+0.2 > sctp: SACK", "+0.3 > sctp: SACK"),
        ("read(4, ..., 60) = 40", "read(4, ..., 60) = 60"),
        ("read(4, ..., 60) = 0", "read(4, ..., 60) = 1"),
        ("accept(3, ..., ...) = 4", "accept(3, ..., ...) = -1 EAGAIN"),
        ("(tag=99): ABORT", ": ABORT"),
        ("(bad_crc32c): ABORT", ": ABORT"),
        (
            "< sctp: SHUTDOWN[flgs=0, cum_tsn=0]",
            "< sctp: ABORT[flgs=0]",
        ),
        (
            "tsn=1, ...]",
            "tsn=1, SUPPORTED_EXTENSIONS[types=[FORWARD_TSN]]]",
        ),
    ];
    for (said, instead) in wrong {
        assert!(OWN[0].contains(said), "{said}");
        let verdict = best_verdict(&OWN[0].replacen(said, instead, 1));
        assert!(
            matches!(verdict, Verdict::Failed(_)),
            "{instead}: {verdict:?}"
        );
    }
}

#[test]
fn scripts_that_ask_for_something_else_are_not_applicable() {
    for line in [
        "+0.0 < sctp: NR_SACK[flgs=0, cum_tsn=0]",
        "+0.0 setsockopt(3, IPPROTO_SCTP, SCTP_MAXSEG, [1], 4) = 0",
        "+0.0 nonsense(3) = 0",
        "+0.0 < sctp: DATA[flgs=BE, len=",
        "+0.0 `sysctl -w net.inet.sctp.nrsack_enable=1`",
        "--unknown_option=1",
    ] {
        let verdict = best_verdict(&format!("{}\n{line}\n", OWN[0]));
        assert!(
            matches!(verdict, Verdict::NotApplicable(_)),
            "{line}: {verdict:?}"
        );
    }
}

#[test]
fn public_suites() {
    let Some(folder) = std::env::var_os("TOWPATH_PACKETDRILL") else {
        println!(
            "SKIPPED: TOWPATH_PACKETDRILL names no folder with packetdrill's scripts for SCTP"
        );
        return;
    };
    let folder = PathBuf::from(folder);
    let all = scripts(&folder);
    assert!(
        !all.is_empty(),
        "{} holds no scripts (*.pkt)",
        folder.display()
    );
    let (mut passed, mut failed, mut not_applicable) = (0, 0, 0);
    for path in &all {
        let name = path.strip_prefix(&folder).unwrap_or(path).display();
        let text = std::fs::read(path).unwrap_or_default();
        match best_verdict(&String::from_utf8_lossy(&text)) {
            Verdict::Passed => {
                passed += 1;
                println!("passed {name}");
            }
            Verdict::Failed(reason) => {
                failed += 1;
                println!("FAILED {name}: {reason}");
            }
            Verdict::NotApplicable(reason) => {
                not_applicable += 1;
                println!("not applicable {name}: {reason}");
            }
        }
    }
    println!(
        "{} scripts: {passed} passed, {failed} failed, {not_applicable} not applicable",
        all.len()
    );
}
