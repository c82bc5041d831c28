//! Changes of live endpoints that their user asks for: a line in, a line back.

use super::server::{check_user, serve_clients};
use crate::xtp::tracing;
use driver::Endpoint;
use engine::{Address, Associations, Instant};
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;
use wire::Wire;
use wire::trace::Traced;

/// What the name of a socket for changes ends with; else it is that of the endpoint's reports.
pub(super) const SUFFIX: &str = "set";

/// Octets of a line at most.
const LINE_MAX: u64 = 4096;

/// How long either side waits for the other.
const LINE_TIMEOUT: Duration = Duration::from_secs(1);

/// What an endpoint says to a change that it made.
const DONE: &str = "ok";

/// Changes an engine by words, or says what is wrong with them.
pub(crate) type ChangeFn<E> = fn(&mut E, Instant, &str) -> Result<(), String>;

/// Serves changes of `endpoint` until it is dropped, beside its reports at `reports`.
/// Fails when no socket can be made there.
pub(crate) fn serve_changes<E: Associations + Send + 'static, W: Wire + Send + 'static>(
    endpoint: &Endpoint<E, Traced<W>>,
    own: Address,
    reports: &Path,
    change: ChangeFn<E>,
) -> io::Result<()> {
    let path = beside(reports);
    // A socket of that name is of a process that is gone: the reports' name is this one's alone.
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path)?;
    let observer = endpoint.observer();
    let socket = serve_clients(listener, path, move |client| {
        let change_now = |words: &str| {
            observer.with_pump(|pump, now| {
                let traced = tracing::change_by_words(pump.wire(), own, words);
                let changed = traced.unwrap_or_else(|| change(pump.engine(), now, words));
                // What follows from it leaves with the next packet if the wire is full.
                let _ = pump.flush(now);
                changed
            })
        };
        // A client that left or says nothing changes nothing.
        answer(client, change_now).unwrap_or(true)
    })?;
    endpoint.keep(Box::new(socket));
    Ok(())
}

/// The socket for changes of the endpoint whose reports are at `reports`.
pub(super) fn beside(reports: &Path) -> PathBuf {
    reports.with_extension(SUFFIX)
}

/// Serves a client; false when the endpoint is gone.
fn answer(
    mut client: UnixStream,
    change: impl Fn(&str) -> Option<Result<(), String>>,
) -> io::Result<bool> {
    check_user(&client)?;
    client.set_nonblocking(false)?;
    client.set_read_timeout(Some(LINE_TIMEOUT))?;
    client.set_write_timeout(Some(LINE_TIMEOUT))?;
    let mut line = String::new();
    (&client).take(LINE_MAX).read_to_string(&mut line)?;
    let Some(changed) = change(line.trim_end()) else {
        return Ok(false);
    };
    let text = changed.err().unwrap_or_else(|| DONE.to_owned());
    client.write_all(text.as_bytes())?;
    Ok(true)
}

/// Asks the endpoint whose reports are at `reports` for a change: `all` or the number of an association, an option and its
/// value; `all trace FILE` has it write its packets to a new file, by its absolute path, and `all trace off` ends that.
///
/// # Errors
///
/// `InvalidInput` with the endpoint's own sentence when the change is not possible, or those of its socket.
pub fn request_change(reports: &Path, words: &str) -> io::Result<()> {
    let mut socket = UnixStream::connect(beside(reports))?;
    socket.set_read_timeout(Some(LINE_TIMEOUT))?;
    socket.write_all(words.as_bytes())?;
    socket.shutdown(std::net::Shutdown::Write)?;
    let mut said = String::new();
    (&socket).take(4 * LINE_MAX).read_to_string(&mut said)?;
    match said.as_str() {
        DONE => Ok(()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, said)),
    }
}
