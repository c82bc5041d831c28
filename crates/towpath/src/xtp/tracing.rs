//! Packet traces of live endpoints, in the simulator's text format (see [`wire::trace`]).
//!
//! A program sets the trace of an endpoint in [`EndpointConfig::trace`](super::EndpointConfig);
//! endpoints that share a trace share its clock and its station numbers. Or all endpoints of a
//! process share one: by [`trace_all`], or by the environment variable [`VARIABLE`], whose value is
//! the path.

use super::environment_path;
use engine::Address;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use wire::trace::{TraceLog, Traced};

/// The environment variable with the path of the trace of a process.
pub const VARIABLE: &str = "TOWPATH_TRACE";

/// The trace of all endpoints of this process.
#[derive(Default)]
struct ProcessTrace {
    path: Option<PathBuf>,
    log: Option<Arc<TraceLog>>,
}

static PROCESS_TRACE: Mutex<ProcessTrace> = Mutex::new(ProcessTrace {
    path: None,
    log: None,
});

/// Traces all endpoints created from now on that have no trace of their own to a new file at
/// `path`. The first endpoint creates it; if it exists, the name gets the suffix `.2` and so on.
/// With 64 files already, nothing is written.
pub fn trace_all(path: &Path) {
    let mut trace = PROCESS_TRACE.lock().unwrap_or_else(PoisonError::into_inner);
    *trace = ProcessTrace {
        path: Some(path.to_owned()),
        log: None,
    };
}

/// The trace of a live endpoint at `own`, as `towpath xtp set` changes it: `all trace`, and the absolute path of a new file
/// or `off`. None if the words are about something else. Errors: a sentence that says what is wrong.
pub(crate) fn change_by_words<W>(
    wire: &Traced<W>,
    own: Address,
    words: &str,
) -> Option<Result<(), String>> {
    let (which, rest) = words.split_once(' ')?;
    let value = rest.strip_prefix("trace ")?;
    Some(change(wire, own, which, value))
}

fn change<W>(wire: &Traced<W>, own: Address, which: &str, value: &str) -> Result<(), String> {
    if which != "all" {
        return Err("an endpoint has one trace; write all instead of an association".into());
    }
    let log = match value {
        "off" => None,
        path if Path::new(path).is_absolute() => {
            let log = TraceLog::create_new(Path::new(path));
            let log = log.map_err(|error| format!("cannot write the trace {path}: {error}"))?;
            Some(Arc::new(log))
        }
        _ => {
            return Err(format!(
                "trace={value} is not possible; give a file, or off"
            ));
        }
    };
    wire.trace_to(log, own);
    Ok(())
}

/// The trace of this process, if enabled.
pub(crate) fn process_log() -> io::Result<Option<Arc<TraceLog>>> {
    let mut trace = PROCESS_TRACE.lock().unwrap_or_else(PoisonError::into_inner);
    if trace.log.is_none()
        && let Some(path) = trace.path.clone().or_else(|| environment_path(VARIABLE))
    {
        match TraceLog::create_beside(&path) {
            Ok(log) => trace.log = Some(Arc::new(log)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                let text = format!("cannot write the trace {}: {error}", path.display());
                return Err(io::Error::new(error.kind(), text));
            }
        }
    }
    Ok(trace.log.clone())
}
