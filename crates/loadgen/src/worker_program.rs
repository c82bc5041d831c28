//! Workers that another program runs, so that two builds take part in one race.
//!
//! Such a program speaks the protocol of crate `control`. It is started in two ways:
//!
//! * `PROGRAM worker --protocol` prints a line `towpath-worker VERSION`, with the version of the
//!   worker protocol, and a line that names the program, and exits. It is asked once, before a race.
//! * `PROGRAM worker` does one job over its standard input, a Unix stream socket.
//! * `PROGRAM worker --transport NAME` prints a line of JSON with the class and the options of a transport. It is
//!   asked for those that the racing program does not know, so that a user's own can race ([`serve`]).
//!
//! What it says is checked as that of a stranger, and it runs in a process group of its own, which
//! ends with it.

mod own_transport;

use control::{PROTOCOL_VERSION, validate};
pub use own_transport::{described, learn, serve};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// First word of the answer to `worker --protocol`.
const VERSION_WORD: &str = "towpath-worker";

/// How long a program may take to answer: a debug build on a loaded machine needs a second.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// How often its exit is looked for.
const POLL: Duration = Duration::from_millis(20);

/// Octets of an answer that are read: a transport's options, two lines, or the first of a complaint.
const ANSWER_MAX: usize = 32 << 10;

/// Characters of a program's name or complaint that are kept.
const TEXT_MAX: usize = 120;

/// The lines with which a program answers `worker --protocol`; `name` is the program and its build.
pub fn answer(name: &str) -> String {
    format!("{VERSION_WORD} {PROTOCOL_VERSION}\n{name}")
}

/// Where a program is that was named on the command line: a path, never a name to search for.
pub fn located(program: &Path) -> PathBuf {
    std::path::absolute(program).unwrap_or_else(|_| program.to_owned())
}

/// Asks a program which worker protocol it speaks; gives its name and build.
///
/// # Errors
///
/// A sentence: it cannot be started, does not answer in time, is none, or speaks another version.
pub fn identify(program: &Path) -> Result<String, String> {
    identify_within(program, ANSWER_LIMIT)
}

fn identify_within(program: &Path, limit: Duration) -> Result<String, String> {
    let shown = program.display();
    let (text, status) = ask(&located(program), &["--protocol"], limit).map_err(|error| {
        format!("program {shown} cannot be asked which worker protocol it speaks: {error}")
    })?;
    let Some(status) = status else {
        return Err(format!(
            "program {shown} did not exit within {limit:?} after `worker --protocol`; it is no \
             towpath"
        ));
    };
    let version = version_of(&text).ok_or_else(|| {
        format!(
            "program {shown} does not say which worker protocol it speaks ({status}{}); it is no \
             towpath, or one from before `worker --protocol`",
            complaint(&text)
        )
    })?;
    if version != PROTOCOL_VERSION {
        return Err(format!(
            "program {shown} speaks version {version} of the worker protocol, this program version \
             {PROTOCOL_VERSION}; two builds race only with the same version"
        ));
    }
    let name = text.lines().nth(1).unwrap_or_default();
    Ok(validate::printable(name, TEXT_MAX))
}

/// The version in an answer's first line.
fn version_of(text: &str) -> Option<u32> {
    let first = text.lines().next()?;
    first.strip_prefix(VERSION_WORD)?.trim().parse().ok()
}

/// `: its first line`, or nothing.
fn complaint(text: &str) -> String {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().map(|line| validate::printable(line, TEXT_MAX));
    first.map_or_else(String::new, |line| format!(": {line}"))
}

/// Runs `program worker` with these words; gives what it wrote, and its exit status unless it had to be
/// killed. Its children have ended.
fn ask(
    program: &Path,
    words: &[&str],
    limit: Duration,
) -> io::Result<(String, Option<ExitStatus>)> {
    let (ours, theirs) = UnixStream::pair()?;
    let theirs = OwnedFd::from(theirs);
    let mut child = Command::new(program)
        .arg("worker")
        .args(words)
        .stdin(Stdio::null())
        .stdout(theirs.try_clone()?)
        .stderr(theirs)
        .process_group(0)
        .spawn()?;
    // Its end of the socket stays open until its exit is known: a program that still writes would end by SIGPIPE.
    let read = read_answer(&ours, &child, Instant::now() + limit);
    let exited = has_exited(&child);
    kill_group(&child);
    let status = child.wait()?;
    let text = String::from_utf8_lossy(&read?).into_owned();
    Ok((text, exited.then_some(status)))
}

/// Reads until the program has exited, or time or room is used up.
fn read_answer(mut from: &UnixStream, child: &Child, end: Instant) -> io::Result<Vec<u8>> {
    from.set_read_timeout(Some(POLL))?;
    let mut text = vec![0; ANSWER_MAX];
    let mut len = 0;
    let mut is_open = true;
    while Instant::now() < end {
        let exited = has_exited(child);
        if is_open && len < ANSWER_MAX {
            match from.read(&mut text[len..]) {
                Ok(0) => is_open = false,
                Ok(read) => {
                    len += read;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => is_open = false,
                Err(error) => return Err(error),
            }
        } else if !exited {
            std::thread::sleep(POLL);
        }
        if exited {
            break;
        }
    }
    text.truncate(len);
    Ok(text)
}

/// Whether a child has exited; it is not reaped, so that its number stays its own.
pub(crate) fn has_exited(child: &Child) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match waitid(WaitId::Pid(Pid::from_child(child)), options) {
        Ok(status) => status.is_some(),
        Err(error) => error != rustix::io::Errno::INTR,
    }
}

/// Kills the process group that a child leads. The child must not have been reaped.
pub(crate) fn kill_group(child: &Child) {
    // All may have exited already.
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shell script, removed on drop. A shell writes it: a file that this process has open for writing
    /// while another thread starts a program cannot be run (ETXTBSY, execve(2)).
    struct Script(PathBuf);

    impl Script {
        fn new(name: &str, lines: &str) -> Script {
            let name = format!("towpath-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            let write = "printf '#!/bin/sh\\n%s\\n' \"$1\" > \"$0\" && chmod 755 \"$0\"";
            let mut shell = Command::new("sh");
            shell.args(["-c", write]).arg(&path).arg(lines);
            assert!(shell.status().expect("sh is there").success());
            Script(path)
        }
    }

    impl Drop for Script {
        fn drop(&mut self) {
            // A file left in the temporary folder does no harm.
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn program_of_the_same_version_gives_its_name() {
        let lines = format!("echo \"{}\"", answer("towpath 9, a build"));
        let script = Script::new("same", &lines);
        assert_eq!(identify(&script.0), Ok("towpath 9, a build".into()));
    }

    #[test]
    fn other_version_is_refused_with_both_numbers() {
        let script = Script::new("other", "echo towpath-worker 4711");
        let why = identify(&script.0).expect_err("another version");
        let ours = format!("this program version {PROTOCOL_VERSION}");
        assert!(why.contains("speaks version 4711"), "{why}");
        assert!(why.contains(&ours), "{why}");
    }

    #[test]
    fn program_that_is_none_is_refused_with_its_status_and_first_line() {
        let script = Script::new("none", "echo >&2 'what is a worker?'; exit 7");
        let why = identify(&script.0).expect_err("no worker");
        assert!(why.contains("exit status: 7: what is a worker?"), "{why}");
        let why = identify(Path::new("/nowhere/towpath")).expect_err("no file");
        assert!(
            why.contains("/nowhere/towpath") && why.contains("No such file"),
            "{why}"
        );
    }

    #[test]
    fn program_that_hangs_is_killed_with_its_children() {
        let file = std::env::temp_dir().join(format!("towpath-child-{}", std::process::id()));
        let lines = format!("sleep 1000 & echo $! > {}; wait", file.display());
        let script = Script::new("hangs", &lines);
        let why = identify_within(&script.0, Duration::from_secs(2)).expect_err("it hangs");
        assert!(why.contains("did not exit within 2s"), "{why}");
        let child = std::fs::read_to_string(&file).expect("it had a child");
        std::fs::remove_file(&file).expect("it is ours");
        assert!(is_gone(child.trim()), "{child}");
    }

    /// Whether a process ends; a killed one may take a moment to be reaped by its new parent.
    fn is_gone(pid: &str) -> bool {
        let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let alive = |stat: String| !stat.is_empty() && !stat.contains(") Z");
        (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            !alive(state())
        })
    }

    #[test]
    fn program_that_leaves_a_child_with_its_output_is_not_waited_for() {
        let lines = format!("sleep 1000 & echo \"{}\"", answer("fast"));
        let script = Script::new("leaves", &lines);
        assert_eq!(identify(&script.0), Ok("fast".into()));
    }

    #[test]
    fn endless_answer_is_bounded() {
        let script = Script::new("endless", "exec yes");
        let why = identify_within(&script.0, Duration::from_millis(300)).expect_err("endless");
        assert!(why.contains("did not exit within"), "{why}");
    }
}
