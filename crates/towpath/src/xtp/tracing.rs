//! Packets of live endpoints as lines of a file, as the simulator writes them.
//!
//! A program gives an endpoint a file by [`Settings::trace`](super::Settings); endpoints that share
//! one share its clock and its numbers of stations. Or all endpoints of a process share one: by
//! [`trace_all`], or by the environment variable [`VARIABLE`], whose value is the path. What stands
//! in a line is explained in [`wire::trace`].

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use wire::trace::TraceLog;

/// The environment variable that names a file for the endpoints of a process.
pub const VARIABLE: &str = "TOWPATH_TRACE";

/// What was asked for, for all endpoints of this process.
#[derive(Default)]
struct ProcessTrace {
    path: Option<PathBuf>,
    log: Option<Arc<TraceLog>>,
}

static PROCESS_TRACE: Mutex<ProcessTrace> = Mutex::new(ProcessTrace {
    path: None,
    log: None,
});

/// Has all endpoints made from now on, whose settings name no file of their own, write to a new file
/// at `path`. The first of them makes it: beside those that are there, with `.2` and so on behind
/// its name. When there are 64, nothing is written.
pub fn trace_all(path: &Path) {
    let mut trace = PROCESS_TRACE.lock().unwrap_or_else(PoisonError::into_inner);
    *trace = ProcessTrace {
        path: Some(path.to_owned()),
        log: None,
    };
}

/// The file of this process, if one was asked for.
pub(crate) fn process_log() -> io::Result<Option<Arc<TraceLog>>> {
    let mut trace = PROCESS_TRACE.lock().unwrap_or_else(PoisonError::into_inner);
    if trace.log.is_none()
        && let Some(path) = trace.path.clone().or_else(path_from_environment)
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

/// What the environment names. A program with more rights than its user heeds it not, so that it
/// writes no files where that one likes.
fn path_from_environment() -> Option<PathBuf> {
    let own = rustix::process::getuid() == rustix::process::geteuid();
    let path = std::env::var_os(VARIABLE).filter(|path| own && !path.is_empty());
    path.map(PathBuf::from)
}
