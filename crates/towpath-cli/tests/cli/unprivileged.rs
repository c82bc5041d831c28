//! The program for a user without privileges.

use crate::support::{CommandOutput, trials_of};
use results::{RunData, Status};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// The user ID of nobody.
const NOBODY: u32 = 65_534;

/// An unprivileged user, with a copy of the program in a folder of that user, who may not enter the
/// build folder.
struct UnprivilegedUser {
    folder: PathBuf,
}

impl UnprivilegedUser {
    fn new() -> UnprivilegedUser {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("towpath-user-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("a folder");
        fs::copy(env!("CARGO_BIN_EXE_towpath"), folder.join("towpath")).expect("a copy");
        if is_root() {
            let given = std::os::unix::fs::chown(&folder, Some(NOBODY), Some(NOBODY));
            given.expect("it is given away");
        }
        UnprivilegedUser { folder }
    }

    /// Runs the program with these words.
    fn runs(&self, words: &[&str]) -> CommandOutput {
        let mut command = Command::new(self.folder.join("towpath"));
        command
            .env("TOWPATH_RACE_LOCK", "none")
            .current_dir(&self.folder)
            .args(words)
            .stdin(Stdio::null());
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command.output().expect("the program starts").into()
    }

    /// A short race into the folder `run`.
    fn races(&self, words: &[&str]) -> CommandOutput {
        let short = ["--sizes", "64", "-w", "delay", "--trial", "50ms"];
        let plain = ["--blocks", "1", "--no-control", "--out", "run"];
        self.runs(&[&["race"], words, &short, &plain].concat())
    }
}

impl Drop for UnprivilegedUser {
    fn drop(&mut self) {
        // A folder left among the temporary ones does no harm.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether unprivileged users have raw sockets on this system.
fn has_raw_sockets_anyway(said: &CommandOutput) -> bool {
    let has = !is_root() && said.code == 0;
    if has {
        eprintln!("SKIPPED: the user of the tests has the right to raw sockets");
    }
    has
}

#[test]
fn unprivileged_user_races_over_link() {
    let user = UnprivilegedUser::new();
    let transports = ["udp", "xtp-rawip", "xtp-ether"];
    let link = ["--link", "rate=100mbit", "--no-calibration"];
    let said = user.races(&[&transports[..], &link].concat());
    if said.err.contains("may not create network namespaces") {
        eprintln!("SKIPPED: {}", said.err);
        return;
    }
    assert_eq!(said.code, 0, "{}", said.err);
    let run = RunData::read(&user.folder.join("run")).expect("a result");
    for name in transports {
        let trials = trials_of(&run, name);
        assert!(!trials.is_empty(), "{name}");
        for trial in trials {
            assert_eq!(trial.status, Status::Ok, "{name}: {}", trial.reason);
        }
    }
}

#[test]
fn unprivileged_raw_socket_error_names_remedy() {
    let commands: [&[&str]; 2] = [&["xtp-rawip"], &["xtp-ether", "--interface", "lo"]];
    for command in commands {
        let transport = command[0];
        let user = UnprivilegedUser::new();
        let said = user.races(command);
        if has_raw_sockets_anyway(&said) {
            continue;
        }
        assert_eq!(said.code, 1, "{transport}: {}", said.err);
        let lines = said.err.lines().filter(|line| line.contains(transport));
        let lines: Vec<&str> = lines.collect();
        let [line] = lines[..] else {
            panic!("one line names it: {}", said.err);
        };
        let start = format!("towpath: {transport} cannot be used: ");
        assert!(line.starts_with(&start), "{line}");
        assert!(
            line.contains("the right to raw sockets (CAP_NET_RAW) is missing"),
            "{line}"
        );
        let remedy = "run as root, or give the program the capability cap_net_raw";
        assert!(line.ends_with(remedy), "{line}");
        assert!(
            !user.folder.join("run").exists(),
            "{transport}: nothing was begun"
        );
    }
}

#[test]
fn unprivileged_transports_list_names_missing_rights() {
    let user = UnprivilegedUser::new();
    let said = user.runs(&["transports"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let row = said.out.lines().find(|line| line.contains("xtp-rawip"));
    let row = row.expect("it is in the table");
    if is_root() {
        assert!(said.out.contains("cap_net_raw"), "{row}\n{}", said.out);
    }
}
