//! The thread that serves reports.

use super::report::{self, EndpointReport};
use super::socket_dir;
use driver::Endpoint;
use engine::{Associations, Counters, Instant, Protocol};
use engine_xtp::group::GroupEndpoint;
use engine_xtp::group::introspection::GroupView;
use engine_xtp::pdu::Rejects;
use engine_xtp::{AssociationView, Xtp};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::process::{Uid, geteuid};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use wire::Wire;
use wire_shortcut::ShortcutHandle;

/// Most associations in a report, about 1 kB each: 500 kB, copied in a fraction of a millisecond
/// while the endpoint is locked.
const ASSOCIATIONS_MAX: usize = 500;

/// How long a client that does not read is waited for.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// Most endpoints of a process that serve reports.
const ENDPOINTS_MAX: u32 = 10_000;

/// Stack of the thread; lists and text are on the heap.
const STACK_LEN: usize = 256 << 10;

/// The state of an engine, copied under its lock.
pub(crate) struct Snapshot {
    pub(super) now: Instant,
    pub(super) associations: Vec<AssociationView>,
    pub(super) groups: GroupView,
    /// Associations and streams, copied or not.
    pub(super) total: usize,
    pub(super) holdings: BTreeMap<String, u64>,
    pub(super) counters: Counters,
    pub(super) rejects: Rejects,
}

/// Copies the state of an engine.
pub(crate) type SnapshotFn<E> = fn(&mut E, Instant) -> Snapshot;

/// Copies the state of an XTP engine.
pub(crate) fn snapshot_xtp(engine: &mut Xtp, now: Instant) -> Snapshot {
    Snapshot {
        now,
        associations: engine.associations(now, ASSOCIATIONS_MAX),
        groups: GroupView::default(),
        total: engine.holdings().associations,
        holdings: report::holdings_map(&engine.holdings()),
        counters: engine.counters(),
        rejects: engine.rejects(),
    }
}

/// Copies the state of an engine of groups.
pub(crate) fn snapshot_group(engine: &mut GroupEndpoint, now: Instant) -> Snapshot {
    let holdings = engine.holdings();
    Snapshot {
        now,
        associations: Vec::new(),
        groups: engine.streams(now, ASSOCIATIONS_MAX),
        total: holdings.associations,
        holdings: report::group_holdings_map(&holdings),
        counters: engine.counters(),
        rejects: engine.rejects(),
    }
}

/// The constant part of an endpoint's report.
#[derive(Clone, Debug)]
pub(crate) struct EndpointIdentity {
    /// Its address.
    pub(crate) address: String,
    /// Its XTP version.
    pub(crate) dialect: String,
    /// Its shortcut, if that is on.
    pub(crate) shortcut: Option<ShortcutHandle>,
}

/// How long nothing is accepted when descriptors have run out: 100 ms.
const EXHAUSTED_PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// Removes the socket and ends its thread when dropped.
pub(crate) struct ReportSocket {
    path: PathBuf,
    process: u32,
    stop_eventfd: OwnedFd,
}

impl ReportSocket {
    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ReportSocket {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            // A forked child owns neither. A client removes a socket that could not be removed
            // here.
            let _ = std::fs::remove_file(&self.path);
            let _ = rustix::io::write(&self.stop_eventfd, &1u64.to_ne_bytes());
        }
    }
}

/// Serves reports of `endpoint` until it is dropped; returns the path of the socket.
/// Fails with `PermissionDenied` if the directory is not private to the user.
pub(crate) fn serve<E: Associations + Send + 'static, W: Wire + Send + 'static>(
    endpoint: &Endpoint<E, W>,
    identity: EndpointIdentity,
    snapshot: SnapshotFn<E>,
) -> io::Result<PathBuf> {
    let observer = endpoint.observer();
    let socket = serve_reports("sock", move || {
        let copied = observer.with_pump(|pump, now| snapshot(pump.engine(), now))?;
        Some(serde_json::to_vec(&EndpointReport::new(&identity, copied)).unwrap_or_default())
    })?;
    let path = socket.path.clone();
    endpoint.keep(Box::new(socket));
    Ok(path)
}

/// Serves what `make` returns, at a socket whose name ends with `suffix`, until the returned value is
/// dropped or `make` returns None. Fails with `PermissionDenied` if the directory is not private to the user.
pub(crate) fn serve_reports(
    suffix: &str,
    make: impl Fn() -> Option<Vec<u8>> + Send + 'static,
) -> io::Result<ReportSocket> {
    let (listener, path) = listen(&socket_dir::create()?, suffix)?;
    serve_clients(listener, path, move |client| {
        let Some(report) = make() else {
            return false;
        };
        // A client that left or does not read gets no report.
        let _ = send_report(client, &report);
        true
    })
}

/// Calls `serve` with each client of `listener`, whose name is `path`, until the returned value is dropped or `serve` returns
/// false.
pub(super) fn serve_clients(
    listener: UnixListener,
    path: PathBuf,
    serve: impl Fn(UnixStream) -> bool + Send + 'static,
) -> io::Result<ReportSocket> {
    listener.set_nonblocking(true)?;
    let stop_eventfd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let socket = ReportSocket {
        path,
        process: std::process::id(),
        stop_eventfd: stop_eventfd.try_clone()?,
    };
    std::thread::Builder::new()
        .name("towpath-context".into())
        .stack_size(STACK_LEN)
        .spawn(move || run(&listener, &stop_eventfd, serve))?;
    Ok(socket)
}

/// Binds a socket with a unique name. It gets its final name only once it listens, so that a client
/// whose connect is refused knows that the socket is stale.
fn listen(folder: &Path, suffix: &str) -> io::Result<(UnixListener, PathBuf)> {
    let process = std::process::id();
    for _ in 0..ENDPOINTS_MAX {
        let number = NEXT_SOCKET_NUMBER.fetch_add(1, Ordering::Relaxed);
        let temporary = folder.join(format!(".{process}-{number}.new"));
        let path = folder.join(format!("{process}-{number}.{suffix}"));
        let Ok(listener) = UnixListener::bind(&temporary) else {
            // Left by an earlier process with this PID.
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
        "{} has no free name for another socket; remove old sockets",
        folder.display()
    )))
}

/// The number of the next socket of this process.
static NEXT_SOCKET_NUMBER: AtomicU32 = AtomicU32::new(1);

fn has_listener(path: &Path) -> bool {
    UnixStream::connect(path).is_ok()
}

fn run(listener: &UnixListener, stop_eventfd: &OwnedFd, serve: impl Fn(UnixStream) -> bool) {
    loop {
        let mut ready = [
            PollFd::new(listener, PollFlags::IN),
            PollFd::new(stop_eventfd, PollFlags::IN),
        ];
        // EINTR only causes one more pass.
        let _ = poll(&mut ready, None);
        if !ready[1].revents().is_empty() {
            return;
        }
        let client = match listener.accept() {
            Ok((client, _)) => client,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            // Out of descriptors: the client waits in the kernel's queue meanwhile.
            Err(_) => {
                let _ = poll(&mut ready[1..], Some(&EXHAUSTED_PAUSE));
                continue;
            }
        };
        if !serve(client) {
            return;
        }
    }
}

/// Whether a client is of this process's user, or root.
pub(super) fn check_user(client: &UnixStream) -> io::Result<()> {
    let credentials = rustix::net::sockopt::socket_peercred(client)?;
    if credentials.uid != geteuid() && credentials.uid != Uid::ROOT {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(())
}

fn send_report(mut client: UnixStream, report: &[u8]) -> io::Result<()> {
    check_user(&client)?;
    client.set_nonblocking(false)?;
    client.set_write_timeout(Some(WRITE_TIMEOUT))?;
    client.write_all(report)
}
