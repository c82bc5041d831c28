//! One measurement at a time on this machine: waits for a race that runs, refuses, or goes on beside
//! it.

use crate::CliError;
use crate::print::note;
use clap::Args;
use control::validate::printable;
use host::{LockAttempt, RACE_LOCK_VARIABLE, RaceLock, race_lock_file};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often a waiting race asks again.
const POLL: Duration = Duration::from_millis(200);

/// Characters of another race's command line that are shown.
const COMMAND_MAX: usize = 120;

/// What a race does while another one runs on this machine.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct AloneArgs {
    /// Refuse to start while another race runs on this machine, instead of waiting for its end.
    #[arg(long)]
    pub no_wait: bool,
    /// Race beside another race on this machine, whose load the result then contains; the result
    /// says so.
    #[arg(long, conflicts_with = "no_wait")]
    pub regardless: bool,
}

/// The right to measure on this machine, until it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Alone {
    _lock: Option<RaceLock>,
    /// The race beside which this one goes on.
    pub(crate) beside: Option<String>,
}

/// Waits until no other race runs on this machine, or does as `args` say.
/// Fails when another race runs and this one is not to wait, or `stop` was set meanwhile.
pub(crate) fn claim(args: AloneArgs, stop: &AtomicBool) -> Result<Alone, CliError> {
    let variable = std::env::var_os(RACE_LOCK_VARIABLE);
    match race_lock_file(variable.as_deref()) {
        Some(file) => claim_file(&file, args, stop),
        None => Ok(Alone::default()),
    }
}

fn claim_file(file: &Path, args: AloneArgs, stop: &AtomicBool) -> Result<Alone, CliError> {
    let mut announced = None;
    while !stop.load(Ordering::Relaxed) {
        let other = match RaceLock::attempt(file) {
            Ok(LockAttempt::Held(lock)) => {
                return Ok(Alone {
                    _lock: Some(lock),
                    beside: None,
                });
            }
            Ok(LockAttempt::Busy(holder)) => holder_text(holder),
            Err(error) => {
                note(format_args!(
                    "cannot see whether another race runs on this machine: {}: {error}",
                    file.display()
                ));
                return Ok(Alone::default());
            }
        };
        if args.regardless {
            note(format_args!(
                "racing beside another race on this machine: {other}"
            ));
            return Ok(Alone {
                _lock: None,
                beside: Some(other),
            });
        }
        if args.no_wait {
            return Err(CliError::failed(format!(
                "another race runs on this machine: {other}; omit --no-wait to wait for its end"
            )));
        }
        if announced.as_ref() != Some(&other) {
            note(format_args!(
                "waiting for another race on this machine: {other}"
            ));
            announced = Some(other);
        }
        std::thread::sleep(POLL);
    }
    Err(CliError::failed(
        "stopped while waiting for another race on this machine; nothing was measured",
    ))
}

/// `process 71 (towpath race tcp udp)`; a process that this one does not see has neither.
fn holder_text(holder: Option<u32>) -> String {
    let Some(pid) = holder else {
        return "in another container, or of a hidden process".into();
    };
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = String::from_utf8_lossy(&words).replace('\0', " ");
    match printable(words.trim(), COMMAND_MAX) {
        command if command.is_empty() => format!("process {pid}"),
        command => format!("process {pid} ({command})"),
    }
}
