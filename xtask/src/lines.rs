//! The lines that a command prints, and an end to programs below it that hang.

use rustix::process::{Pid, Signal, kill_process};
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Runs a command and reads its standard output line by line; whether it ended well.
///
/// When it prints nothing for `silence_max`, the programs that it started are ended and [`Line::Silence`] is
/// read: cargo counts an ended test program as failed and goes on with the next.
pub(crate) fn read_lines(
    command: &mut Command,
    silence_max: Duration,
    mut read: impl FnMut(Line<'_>),
) -> io::Result<bool> {
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let lines = printed(&mut child);
    loop {
        match lines.recv_timeout(silence_max) {
            Ok(line) => read(Line::Printed(&line)),
            Err(RecvTimeoutError::Timeout) => {
                // A program left behind may hold the output of a command that is over.
                if let Some(status) = child.try_wait()? {
                    return Ok(status.success());
                }
                read(Line::Silence);
                end_children(child.id());
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(child.wait()?.success()),
        }
    }
}

/// What [`read_lines`] reads.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// Without the line's end.
    Printed(&'a str),
    /// Nothing was printed for the longest time allowed.
    Silence,
}

/// The lines that the command prints from now on; the sender is dropped after the last.
fn printed(child: &mut Child) -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel();
    if let Some(output) = child.stdout.take() {
        std::thread::spawn(move || {
            let printed = BufReader::new(output).lines().map_while(Result::ok);
            printed
                .map(|line| sender.send(line))
                .all(|sent| sent.is_ok())
        });
    }
    lines
}

/// Kills the processes whose parent is `parent`.
fn end_children(parent: u32) {
    for entry in Path::new("/proc")
        .read_dir()
        .into_iter()
        .flatten()
        .flatten()
    {
        let process = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        let Some(process) = process.and_then(Pid::from_raw) else {
            continue;
        };
        if parent_of(&entry.path()) == Some(parent) {
            // It fails when the process is over, which is as good.
            let _ = kill_process(process, Signal::KILL);
        }
    }
}

/// The fourth word of `/proc/PID/stat`; the second is the program's name in parentheses (proc(5)).
fn parent_of(process: &Path) -> Option<u32> {
    let stat = std::fs::read_to_string(process.join("stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(script: &str) -> (bool, Vec<String>) {
        let mut command = Command::new("sh");
        let mut lines = Vec::new();
        let ended_well = read_lines(
            command.args(["-c", script]),
            Duration::from_millis(500),
            |line| lines.push(format!("{line:?}")),
        );
        (ended_well.expect("a shell"), lines)
    }

    #[test]
    fn lines_are_read_and_the_exit_code() {
        let (ended_well, lines) = lines_of("echo one; echo two; exit 3");
        assert!(!ended_well);
        assert_eq!(lines, [r#"Printed("one")"#, r#"Printed("two")"#]);
        assert!(lines_of("true").0);
    }

    #[test]
    fn program_that_hangs_is_ended_and_the_next_runs() {
        let (ended_well, lines) = lines_of("echo one; sleep 3600; echo two; exit 0");
        assert!(ended_well);
        assert_eq!(lines, [r#"Printed("one")"#, "Silence", r#"Printed("two")"#]);
    }
}
