//! The thread that answers.

use super::folder;
use super::report::EndpointReport;
use driver::{Endpoint, Observer};
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
const WRITE_LIMIT: Duration = Duration::from_secs(1);

/// Endpoints of a process that answer, at most.
const ENDPOINTS_MAX: u32 = 10_000;

/// Octets of stack: lists and text are on the heap.
const STACK: usize = 256 << 10;

/// What an engine tells, copied while it is locked.
pub(crate) struct Snapshot {
    pub(super) now: Instant,
    pub(super) associations: Vec<AssociationView>,
    pub(super) holdings: Holdings,
    pub(super) counters: Counters,
    pub(super) rejects: Rejects,
}

/// How to look at an engine.
pub(crate) type Look<E> = fn(&mut E, Instant) -> Snapshot;

/// How to look at an engine of XTP.
pub(crate) fn look_at_xtp(engine: &mut Xtp, now: Instant) -> Snapshot {
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
pub(crate) struct Facts {
    /// Where it is.
    pub(crate) address: String,
    /// The revision it speaks.
    pub(crate) dialect: String,
}

/// A socket and the thread behind it; both end with this.
struct Answering {
    path: PathBuf,
    process: u32,
    bell: OwnedFd,
}

impl Drop for Answering {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            // A child that was forked has neither. What cannot be removed is swept by a reader.
            let _ = std::fs::remove_file(&self.path);
            let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
    }
}

/// Has `endpoint` answer until it is gone; gives the path of its socket.
///
/// # Errors
///
/// A folder that is not the user's alone, or the system's.
pub(crate) fn answer<E: Engine + Send + 'static, W: Wire + Send + 'static>(
    endpoint: &Endpoint<E, W>,
    facts: Facts,
    look: Look<E>,
) -> io::Result<PathBuf> {
    let (listener, path) = listen(&folder::make()?)?;
    listener.set_nonblocking(true)?;
    let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let answering = Answering {
        path: path.clone(),
        process: std::process::id(),
        bell: bell.try_clone()?,
    };
    let observer = endpoint.observer();
    std::thread::Builder::new()
        .name("towpath-context".into())
        .stack_size(STACK)
        .spawn(move || run(&listener, &bell, &observer, &facts, look))?;
    endpoint.keep(Box::new(answering));
    Ok(path)
}

/// A socket with a name of its own. It gets it when it listens, so that who finds it and is refused
/// knows that nobody is there any more.
fn listen(folder: &Path) -> io::Result<(UnixListener, PathBuf)> {
    let process = std::process::id();
    for _ in 0..ENDPOINTS_MAX {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let unborn = folder.join(format!(".{process}-{number}.new"));
        let path = folder.join(format!("{process}-{number}.sock"));
        let Ok(listener) = UnixListener::bind(&unborn) else {
            // A process that had this number before left it.
            continue;
        };
        let free = !path.exists() || !is_alive(&path);
        if free {
            std::fs::rename(&unborn, &path)?;
            return Ok((listener, path));
        }
        std::fs::remove_file(&unborn)?;
    }
    Err(io::Error::other(format!(
        "{} has no room for another socket; remove those that are old",
        folder.display()
    )))
}

/// The number of the next socket of this process.
static NEXT: AtomicU32 = AtomicU32::new(1);

fn is_alive(path: &Path) -> bool {
    UnixStream::connect(path).is_ok()
}

fn run<E: Engine, W: Wire>(
    listener: &UnixListener,
    bell: &OwnedFd,
    observer: &Observer<E, W>,
    facts: &Facts,
    look: Look<E>,
) {
    loop {
        let mut ready = [
            PollFd::new(listener, PollFlags::IN),
            PollFd::new(bell, PollFlags::IN),
        ];
        // An interrupted wait looks around once more than it must.
        let _ = poll(&mut ready, None);
        if !ready[1].revents().is_empty() {
            return;
        }
        let Ok((asker, _)) = listener.accept() else {
            continue;
        };
        let Some(snapshot) = observer.look(|pump, now| look(pump.engine(), now)) else {
            return;
        };
        // An asker that goes away, or does not read, asked for nothing.
        let _ = tell(asker, &EndpointReport::new(facts, snapshot));
    }
}

fn tell(mut asker: UnixStream, report: &EndpointReport) -> io::Result<()> {
    let who = rustix::net::sockopt::socket_peercred(&asker)?;
    if who.uid != geteuid() && who.uid != Uid::ROOT {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    asker.set_nonblocking(false)?;
    asker.set_write_timeout(Some(WRITE_LIMIT))?;
    asker.write_all(&serde_json::to_vec(report)?)
}
