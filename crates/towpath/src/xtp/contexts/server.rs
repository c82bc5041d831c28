//! The thread that answers.

use super::report::EndpointReport;
use super::socket_dir;
use driver::{Endpoint, EndpointObserver};
use engine::{Counters, Engine, Instant};
use engine_xtp::pdu::Rejects;
use engine_xtp::{AssociationView, Holdings, Xtp};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::process::{Uid, geteuid};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use wire::Wire;

/// Associations told at most, about a kilobyte each: half a megabyte, copied in a fraction of a
/// millisecond while the endpoint waits.
const ASSOCIATIONS_MAX: usize = 500;

/// How long an asker that does not read is waited for.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// Endpoints of a process that answer, at most.
const ENDPOINTS_MAX: u32 = 10_000;

/// Octets of stack: lists and text are on the heap.
const STACK_LEN: usize = 256 << 10;

/// What an engine tells, copied while it is locked.
pub(crate) struct Snapshot {
    pub(super) now: Instant,
    pub(super) associations: Vec<AssociationView>,
    pub(super) holdings: Holdings,
    pub(super) counters: Counters,
    pub(super) rejects: Rejects,
}

/// How to look at an engine.
pub(crate) type SnapshotFn<E> = fn(&mut E, Instant) -> Snapshot;

/// How to look at an engine of XTP.
pub(crate) fn snapshot_xtp(engine: &mut Xtp, now: Instant) -> Snapshot {
    Snapshot {
        now,
        associations: engine.associations(now, ASSOCIATIONS_MAX),
        holdings: engine.holdings(),
        counters: engine.counters(),
        rejects: engine.rejects(),
    }
}

/// What does not change about an endpoint.
#[derive(Clone, Debug)]
pub(crate) struct EndpointIdentity {
    /// Where it is.
    pub(crate) address: String,
    /// The revision it speaks.
    pub(crate) dialect: String,
}

/// A socket and the thread behind it; both end with this.
struct ServerHandle {
    path: PathBuf,
    process: u32,
    stop_eventfd: OwnedFd,
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            // A child that was forked has neither. What cannot be removed is swept by a reader.
            let _ = std::fs::remove_file(&self.path);
            let _ = rustix::io::write(&self.stop_eventfd, &1u64.to_ne_bytes());
        }
    }
}

/// Has `endpoint` answer until it is gone; gives the path of its socket.
///
/// # Errors
///
/// A folder that is not the user's alone, or the system's.
pub(crate) fn serve<E: Engine + Send + 'static, W: Wire + Send + 'static>(
    endpoint: &Endpoint<E, W>,
    identity: EndpointIdentity,
    snapshot: SnapshotFn<E>,
) -> io::Result<PathBuf> {
    let (listener, path) = listen(&socket_dir::create()?)?;
    listener.set_nonblocking(true)?;
    let stop_eventfd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let handle = ServerHandle {
        path: path.clone(),
        process: std::process::id(),
        stop_eventfd: stop_eventfd.try_clone()?,
    };
    let observer = endpoint.observer();
    std::thread::Builder::new()
        .name("towpath-context".into())
        .stack_size(STACK_LEN)
        .spawn(move || run(&listener, &stop_eventfd, &observer, &identity, snapshot))?;
    endpoint.keep(Box::new(handle));
    Ok(path)
}

/// A socket with a name of its own. It gets it when it listens, so that who finds it and is refused
/// knows that nobody is there any more.
fn listen(folder: &Path) -> io::Result<(UnixListener, PathBuf)> {
    let process = std::process::id();
    for _ in 0..ENDPOINTS_MAX {
        let number = NEXT_SOCKET_NUMBER.fetch_add(1, Ordering::Relaxed);
        let temporary = folder.join(format!(".{process}-{number}.new"));
        let path = folder.join(format!("{process}-{number}.sock"));
        let Ok(listener) = UnixListener::bind(&temporary) else {
            // A process that had this number before left it.
            continue;
        };
        let free = !path.exists() || !has_listener(&path);
        if free {
            std::fs::rename(&temporary, &path)?;
            return Ok((listener, path));
        }
        std::fs::remove_file(&temporary)?;
    }
    Err(io::Error::other(format!(
        "{} has no room for another socket; remove those that are old",
        folder.display()
    )))
}

/// The number of the next socket of this process.
static NEXT_SOCKET_NUMBER: AtomicU32 = AtomicU32::new(1);

fn has_listener(path: &Path) -> bool {
    UnixStream::connect(path).is_ok()
}

fn run<E: Engine, W: Wire>(
    listener: &UnixListener,
    stop_eventfd: &OwnedFd,
    observer: &EndpointObserver<E, W>,
    identity: &EndpointIdentity,
    snapshot: SnapshotFn<E>,
) {
    loop {
        let mut ready = [
            PollFd::new(listener, PollFlags::IN),
            PollFd::new(stop_eventfd, PollFlags::IN),
        ];
        // An interrupted wait looks around once more than it must.
        let _ = poll(&mut ready, None);
        if !ready[1].revents().is_empty() {
            return;
        }
        let Ok((client, _)) = listener.accept() else {
            continue;
        };
        let Some(copied) = observer.with_pump(|pump, now| snapshot(pump.engine(), now)) else {
            return;
        };
        // An asker that goes away, or does not read, asked for nothing.
        let _ = send_report(client, &EndpointReport::new(identity, copied));
    }
}

fn send_report(mut client: UnixStream, report: &EndpointReport) -> io::Result<()> {
    let credentials = rustix::net::sockopt::socket_peercred(&client)?;
    if credentials.uid != geteuid() && credentials.uid != Uid::ROOT {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    client.set_nonblocking(false)?;
    client.set_write_timeout(Some(WRITE_TIMEOUT))?;
    client.write_all(&serde_json::to_vec(report)?)
}
