//! Wrong input: one line that names problem and remedy, and no complete-looking folder.

use crate::support::{CommandOutput, Scratch, assert_lacks, towpath};
use std::fs;
use std::path::Path;

/// Checks exit code and error: the last line of standard error is the only one of the program's
/// own, and contains `words`.
#[track_caller]
fn assert_refused(said: &CommandOutput, code: i32, words: &[&str]) {
    assert_eq!(said.code, code, "{}", said.err);
    let own = said
        .err
        .lines()
        .filter(|line| line.starts_with("towpath: "));
    assert_eq!(own.count(), 1, "{}", said.err);
    let last = said.err.lines().last().unwrap_or_default();
    for word in words {
        assert!(last.contains(word), "'{word}' is not in: {last}");
    }
    assert_lacks(&said.err, "panicked");
}

#[track_caller]
pub fn assert_refused_before_start(arguments: &[&str], code: i32, words: &[&str]) {
    let scratch = Scratch::new();
    let out = scratch.text("run");
    let mut all = vec!["race"];
    all.extend(arguments);
    all.extend(["--out", &out]);
    let said = towpath(&all);
    assert_refused(&said, code, words);
    assert_eq!(said.err.lines().count(), 1, "{}", said.err);
    assert_eq!(said.out, "");
    assert!(!scratch.path("run").exists(), "a folder was left");
}

#[test]
fn options_that_would_do_nothing_are_refused() {
    let scratch = Scratch::new();
    let trace = scratch.text("x.trace");
    let capture = scratch.text("none/x.pcapng");
    for (arguments, words) in [
        (
            &["tcp", "--trace", &trace][..],
            &["--trace", "no contestant", "add xtp"][..],
        ),
        (
            &["tcp", "--interface", "nosuch0"],
            &["--interface", "raw-ether", "omit it"],
        ),
        (
            &["tcp", "--link", "rate=10mbit", "--capture", &capture],
            &["its folder does not exist"],
        ),
    ] {
        assert_refused_before_start(arguments, 2, words);
    }
}

#[test]
fn invalid_option_values_are_refused() {
    for (arguments, words) in [
        (
            &["tcpp"][..],
            &["unknown transport 'tcpp'", "unix-stream"][..],
        ),
        (&["tcp+nosuch"], &["unknown transport 'nosuch'"]),
        (&["tcp", "--sizes", "12x"], &["'12x' is no size", "KiB"]),
        (&["tcp", "--sizes", "many"], &["'many' is no size"]),
        (&["tcp", "--sizes", "0"], &["stream of bytes", "from 1"]),
        (&["tcp", "--sizes", "9..3"], &["'9..3' is no range"]),
        (&["tcp", "--sizes", "1GiB"], &["'1GiB'", "64 MiB"]),
        (
            &["tcp", "--sizes", "999999999999999999999"],
            &["is above the limit of a size"],
        ),
        (&["tcp", "--sizes", "65MiB"], &["64 MiB"]),
        (&["tcp", "-w", "speed"], &["'speed'", "throughput, delay"]),
        (&["tcp", "--blocks", "9..3"], &["'9..3' blocks"]),
        (&["tcp", "--blocks", "0"], &["'0' blocks"]),
        (&["tcp", "--time", "soon"], &["'soon' is no time"]),
        (&["tcp", "--trial", "0s"], &["'0s' is out of range"]),
        (&["tcp", "--rate", "fast"], &["'fast' is no rate"]),
        (&["tcp", "--mix", "64"], &["'64' is no mix"]),
        (&["tcp", "--priority", "sender=40"], &["'40'", "-20 and 19"]),
        (&["tcp", "--priority", "left=1"], &["unknown side 'left'"]),
        (&["tcp", "--pin", "99"], &["no CPU 99", "--pin"]),
        (&["tcp", "--pin", "one"], &["'one' is no CPU"]),
        (
            &["tcp", "--circuits", "0"],
            &["'0' is no whole number from 1 to 64"],
        ),
        (
            &["tcp", "--link", "ether10,loss=1%"],
            &["ether10 is a shared Ethernet", "no 'loss=1%'"],
        ),
        (
            &["tcp", "--nodelay", "maybe"],
            &["'maybe' is neither on nor off"],
        ),
        (&["tcp", "--baseline", "udp"], &["'udp' does not take part"]),
        (&["tcp", "--buffers", "big"], &["'big' is no size"]),
        (&["tcp", "--reverse", "--bidir"], &["--reverse", "--bidir"]),
        (&["tcp", "--turbo"], &["'--turbo'", "--help"]),
        (
            &["tcp", "-w", "offered", "--sizes", "8"],
            &["offered", "at least 16 B"],
        ),
    ] {
        assert_refused_before_start(arguments, 2, words);
    }
}

#[test]
fn invalid_contestant_options_are_refused() {
    for (arguments, words) in [
        (
            &["tcp,turbo=on"][..],
            &[
                "tcp has no option 'turbo'",
                "congestion=NAME",
                "nodelay=on|off",
                "buffers=BYTES",
            ][..],
        ),
        (
            &["udp,congestion=reno"],
            &["udp has no option 'congestion'", "buffers=BYTES"],
        ),
        (
            &["tcp,nodelay"],
            &["option 'nodelay' of tcp needs a value", "nodelay=on|off"],
        ),
        (
            &["tcp,nodelay=maybe"],
            &["nodelay of tcp is 'maybe'", "on or off"],
        ),
        (&["tcp,buffers=big"], &["'big' is no size", "buffers=BYTES"]),
        (&["tcp,push=metre"], &["no module 'metre'", "meter"]),
        (
            &["tcp,push=fault,fault-drop=1%"],
            &["fault-drop= on tcp", "udp"],
        ),
        (
            &["tcp,nodelay=on,nodelay=on"],
            &["tcp is given option 'nodelay' twice"],
        ),
        (
            &["udp", "tcp,nodelay=on", "--baseline", "tcp"],
            &["'tcp' does not take part"],
        ),
        (
            &["tcp,buffers=64k", "--buffers", "32k,64k"],
            &["--buffers sweeps", "tcp,buffers=64k"],
        ),
    ] {
        assert_refused_before_start(arguments, 2, words);
    }
}

#[test]
fn unavailable_transport_is_refused_with_remedy() {
    assert_refused_before_start(
        &["tcp", "--congestion", "nosuch"],
        1,
        &["tcp cannot be used", "'nosuch'", "--congestion"],
    );
    assert_refused_before_start(
        &["tcp,congestion=nosuch"],
        1,
        &["tcp,congestion=nosuch cannot be used", "'nosuch'"],
    );
    assert_refused_before_start(
        &["raw-ether"],
        1,
        &["raw-ether cannot be used", "--interface"],
    );
    assert_refused_before_start(
        &["raw-ether", "--interface", "nosuch0"],
        1,
        &["raw-ether cannot be used", "nosuch0"],
    );
}

#[test]
fn non_empty_output_folder_is_left_untouched() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("run")).expect("a folder");
    fs::write(scratch.path("run/mine"), "mine").expect("a file");
    let said = towpath(&["race", "tcp", "--out", &scratch.text("run")]);
    assert_refused(&said, 1, &["exists and is not empty", "--out"]);
    let left: Vec<_> = fs::read_dir(scratch.path("run"))
        .expect("it is there")
        .collect();
    assert_eq!(left.len(), 1);
}

#[test]
fn file_in_place_of_output_folder_is_refused() {
    let scratch = Scratch::new();
    fs::write(scratch.path("file"), "mine").expect("a file");
    let said = towpath(&["race", "tcp", "--out", &scratch.text("file/run")]);
    assert_refused(&said, 1, &["cannot write", "file/run", "--out"]);
    assert_eq!(
        fs::read_to_string(scratch.path("file")).expect("it is there"),
        "mine"
    );
}

/// A file system of a few pages, which needs root.
struct TinyFilesystem<'a>(&'a Path);

impl TinyFilesystem<'_> {
    fn mount(at: &Path) -> Option<TinyFilesystem<'_>> {
        fs::create_dir_all(at).expect("a folder");
        let mut mount = std::process::Command::new("mount");
        let mount = mount
            .args(["-t", "tmpfs", "-o", "size=48k", "tmpfs"])
            .arg(at);
        let done = mount.output().is_ok_and(|output| output.status.success());
        done.then_some(TinyFilesystem(at))
    }
}

impl Drop for TinyFilesystem<'_> {
    fn drop(&mut self) {
        let unmounted = std::process::Command::new("umount").arg(self.0).status();
        assert!(unmounted.is_ok_and(|status| status.success()));
    }
}

#[test]
fn full_disk_fails_without_valid_result() {
    let scratch = Scratch::new();
    let at = scratch.path("tiny");
    let Some(_tiny) = TinyFilesystem::mount(&at) else {
        eprintln!("SKIPPED: a small file system needs root");
        return;
    };
    let out = scratch.text("tiny/run");
    let arguments = [
        "race", "tcp", "udp", "--trial", "20ms", "--blocks", "9", "--out", &out,
    ];
    let said = towpath(&arguments);
    assert_refused(&said, 1, &["cannot write", "No space left", "--out"]);
    assert!(!scratch.path("tiny/run/summary.json").exists());
    assert!(!scratch.path("tiny/run/report.html").exists());
}

#[test]
fn race_without_valid_trial_exits_1() {
    let scratch = Scratch::new();
    let out = scratch.text("run");
    let said = towpath(&[
        "race", "udp", "--sizes", "1MiB", "--trial", "20ms", "--out", &out,
    ]);
    assert_refused(&said, 1, &["the race failed", "1048576"]);
    crate::schema::accepts_folder(&scratch.path("run"));
}
