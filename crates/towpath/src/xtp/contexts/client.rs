//! Finds live endpoints and queries their reports.

use super::changes;
use super::report::EndpointReport;
use super::socket_dir;
use rustix::process::{Pid, test_kill_process};
use serde::de::DeserializeOwned;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Largest report accepted: 8 MiB; the largest sent is about 1 MiB.
const REPORT_LEN_MAX: u64 = 8 << 20;

/// How long an endpoint may take to send its report.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);

/// Most directory entries read.
const SOCKETS_MAX: usize = 10_000;

/// A queried endpoint of XTP and its report.
pub type QueriedEndpoint = Queried<EndpointReport>;

/// A queried endpoint and its report.
#[derive(Debug)]
pub struct Queried<R> {
    /// Its socket.
    pub path: PathBuf,
    /// The PID in the socket's name.
    pub process: u32,
    /// Its report, or why there is none.
    pub report: io::Result<R>,
}

/// Queries all endpoints of this user, or those of one process, ordered by PID and number. Removes
/// stale sockets.
///
/// # Errors
///
/// `PermissionDenied` if the directory is not private to the user.
pub fn query_all(process: Option<u32>) -> io::Result<Vec<QueriedEndpoint>> {
    query_sockets("sock", process)
}

/// As [`query_all`], of endpoints whose sockets have names that end with `suffix`.
pub(crate) fn query_sockets<R: DeserializeOwned>(
    suffix: &str,
    process: Option<u32>,
) -> io::Result<Vec<Queried<R>>> {
    match socket_dir::open_existing()? {
        Some(folder) => query_all_in(&folder, suffix, process),
        None => Ok(Vec::new()),
    }
}

fn query_all_in<R: DeserializeOwned>(
    folder: &Path,
    suffix: &str,
    process: Option<u32>,
) -> io::Result<Vec<Queried<R>>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)?.take(SOCKETS_MAX) {
        let path = entry?.path();
        if let Some(numbers) = parse_socket_name(&path, suffix) {
            names.push((numbers, path));
        } else {
            remove_stale_temporary(&path);
        }
    }
    names.sort();
    let wanted = |maker: u32| process.is_none_or(|process| process == maker);
    let names = names.into_iter().filter(|((maker, _), _)| wanted(*maker));
    let answers = names.filter_map(|((process, _), path)| {
        let answer = query_report(&path);
        if let Err(error) = &answer
            && error.kind() == io::ErrorKind::ConnectionRefused
        {
            // A socket gets its name only once it listens, so its process is gone.
            let _ = std::fs::remove_file(&path);
            let _ = std::fs::remove_file(changes::beside(&path));
            return None;
        }
        let gone = matches!(&answer, Err(error) if error.kind() == io::ErrorKind::NotFound);
        (!gone).then_some(Queried {
            path,
            process,
            report: answer,
        })
    });
    Ok(answers.collect())
}

/// Removes the sockets that killed processes of this user have left. What cannot be removed is met
/// again by the next command.
pub fn remove_stale_sockets() {
    let Ok(Some(folder)) = socket_dir::open_existing() else {
        return;
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for path in entries.take(SOCKETS_MAX).map(|entry| entry.path()) {
        let name = SUFFIXES
            .iter()
            .find_map(|suffix| parse_socket_name(&path, suffix));
        match name {
            // A live process is not asked: that would cost it a report. A number in another PID
            // namespace may be unknown here, and its socket still answers.
            Some((process, _)) if has_ended(process) => {
                let answer = UnixStream::connect(&path);
                if answer.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
                    let _ = std::fs::remove_file(&path);
                }
            }
            Some(_) => {}
            None => remove_stale_temporary(&path),
        }
    }
}

fn has_ended(process: u32) -> bool {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    process.is_some_and(|process| test_kill_process(process) == Err(rustix::io::Errno::SRCH))
}

/// What names of sockets end with: those of XTP's endpoints, of VMTP's, of SCTP's, and those for changes.
const SUFFIXES: [&str; 4] = ["sock", "vmtp", "sctp", changes::SUFFIX];

/// The PID and the number in a name such as `4711-1.sock`.
fn parse_socket_name(path: &Path, suffix: &str) -> Option<(u32, u32)> {
    let name = path.file_name()?.to_str()?.strip_suffix(suffix)?;
    let name = name.strip_suffix('.')?;
    let (process, number) = name.split_once('-')?;
    Some((process.parse().ok()?, number.parse().ok()?))
}

/// Removes a socket whose process ended before it listened.
fn remove_stale_temporary(path: &Path) {
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.and_then(|name| name.strip_prefix('.')?.strip_suffix(".new"));
    let process = name.and_then(|name| name.split_once('-')?.0.parse().ok());
    if let Some(process) = process.and_then(Pid::from_raw)
        && test_kill_process(process) == Err(rustix::io::Errno::SRCH)
    {
        // Another client may have removed it already.
        let _ = std::fs::remove_file(path);
    }
}

/// Queries the endpoint whose socket is at `path`.
///
/// # Errors
///
/// `ConnectionRefused` when the socket is stale, `InvalidData` for an invalid report.
pub fn query(path: &Path) -> io::Result<EndpointReport> {
    query_report(path)
}

/// As [`query`], of any report.
pub(crate) fn query_report<R: DeserializeOwned>(path: &Path) -> io::Result<R> {
    let mut socket = UnixStream::connect(path)?;
    let end = Instant::now() + QUERY_TIMEOUT;
    let mut answer = Vec::new();
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket.set_read_timeout(Some(left))?;
        let mut part = [0; 16 << 10];
        match socket.read(&mut part) {
            Ok(0) => break,
            Ok(len) => answer.extend_from_slice(&part[..len]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if answer.len() as u64 > REPORT_LEN_MAX {
            let text = "the report is longer than any endpoint's";
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
    }
    serde_json::from_slice(&answer).map_err(|_| {
        let text = "the report is not that of an endpoint of this version";
        io::Error::new(io::ErrorKind::InvalidData, text)
    })
}
