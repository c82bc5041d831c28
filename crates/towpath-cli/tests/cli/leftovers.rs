//! What killed programs leave - control groups, folders, sockets - is removed by the next command.

use crate::support::{Scratch, assert_has, finish, program, signal, wait_until};
use crate::testbeds::can_create_hosts;
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The program with its temporary files and sockets in `scratch`.
fn program_in(scratch: &Scratch) -> Command {
    let folder = &scratch.0;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).expect("an own folder");
    let mut command = program();
    command.env("TMPDIR", folder).env("XDG_RUNTIME_DIR", folder);
    command.stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// Runs a command that has nothing to do with what was killed.
fn run_next(scratch: &Scratch) {
    let mut next = program_in(scratch);
    let next = next.args(["cp", "/nosuch", "127.0.0.1"]);
    assert_eq!(finish(next.spawn().expect("it starts")).code, 1);
}

/// Entries whose name begins with `prefix`, in all folders below `folder`.
fn named(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found = Vec::new();
    for entry in entries {
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            found.push(entry.path());
        } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(named(&entry.path(), prefix));
        }
    }
    found
}

#[test]
fn killed_race_with_quota_and_load_is_cleaned_up_by_another_command() {
    if !can_create_hosts() {
        return;
    }
    let scratch = Scratch::new();
    let mut race = program_in(&scratch);
    race.args(["race", "tcp", "--link", "true", "--no-calibration"]);
    race.args(["--quota", "50%", "--host-load", "1", "-w", "throughput"]);
    race.args(["--sizes", "64", "--trial", "30s", "--blocks", "2"]);
    race.args(["--no-report", "--out", &scratch.text("run")]);
    let mut race = race.spawn().expect("it starts");
    let groups = format!("towpath-quota-{}-", race.id());
    let (mut held, mut loads, mut ended) = (Vec::new(), Vec::new(), false);
    wait_until("neither groups nor folders come", || {
        held = named(Path::new("/sys/fs/cgroup"), &groups);
        loads = named(&scratch.0, "towpath-load-");
        ended = race.try_wait().expect("a child").is_some();
        ended || !held.is_empty() && !loads.is_empty()
    });
    signal(race.id(), Signal::KILL);
    let said = finish(race);
    if ended {
        assert_has(&said.err, "control groups");
        eprintln!("SKIPPED: {}", said.err);
        return;
    }
    let is_empty = |group: &PathBuf| {
        fs::read_to_string(group.join("cgroup.procs")).is_ok_and(|text| text.is_empty())
    };
    wait_until("processes outlive their race", || {
        held.iter().all(|group| !group.exists() || is_empty(group))
    });
    run_next(&scratch);
    assert_eq!(
        named(Path::new("/sys/fs/cgroup"), &groups),
        [""; 0].map(PathBuf::from)
    );
    assert_eq!(
        named(&scratch.0, "towpath-load-"),
        [""; 0].map(PathBuf::from)
    );
}

#[test]
fn socket_of_killed_forward_is_removed_by_another_command() {
    let scratch = Scratch::new();
    let mut forward = program_in(&scratch);
    forward.args(["forward", "127.0.0.1:0", "--over", "xtp", "127.0.0.1:9"]);
    let forward = forward.spawn().expect("it starts");
    let sockets = scratch.path("towpath");
    let name = format!("{}-", forward.id());
    wait_until("there is no socket", || !named(&sockets, &name).is_empty());
    run_next(&scratch);
    assert!(!named(&sockets, &name).is_empty(), "it was in use");
    signal(forward.id(), Signal::KILL);
    finish(forward);
    run_next(&scratch);
    assert_eq!(named(&sockets, &name), [""; 0].map(PathBuf::from));
}
