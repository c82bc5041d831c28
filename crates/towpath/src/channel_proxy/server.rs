//! One end of a proxy as a server: many channels of one direction, a thread each.

use super::{carry_in, carry_out, to_io_error};
use crate::contract::{Interest, Listener, Rendezvous, Transport};
use crate::options::Options;
use crate::socket;
use channel::{ChannelReceiver, ChannelSender, Geometry, Signal};
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Channels carried at once unless the user says otherwise: with rings of 1 MiB, 64 MiB of memory.
pub const CHANNELS_MAX: usize = 64;

/// Time between looks at the stop flag, and at the number of channels when all places are taken.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// How long a program that has connected may take to open its channel.
const OPENING_TIMEOUT: Duration = Duration::from_secs(10);

/// How long channels under way may take to end once the proxy is stopped: a circuit that is dropped waits
/// 500 ms for the last acknowledgement.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Time between looks at the channels that are still under way.
const DRAIN_INTERVAL: Duration = Duration::from_millis(10);

/// What tells the user a line.
type Log = Box<dyn Fn(&str) + Send + Sync>;

/// One end of a proxy of channels.
pub struct ChannelProxy {
    end: End,
    channels_max: usize,
    shared: Arc<Shared>,
}

/// What the end takes in, and where it carries that.
enum End {
    /// Channels of programs of this host, over circuits to the far end.
    Near {
        programs: NamedListener,
        carrier: Box<Carrier>,
        far: SocketAddr,
    },
    /// Circuits of the near end, into channels to a program that listens at `program`.
    Far {
        circuits: Box<dyn Listener>,
        program: PathBuf,
        geometry: Geometry,
    },
}

/// The transport between the ends.
#[derive(Clone)]
struct Carrier {
    transport: &'static dyn Transport,
    options: Options,
}

struct Shared {
    log: Log,
    carried_now: AtomicUsize,
    closed: AtomicU64,
    broken: AtomicU64,
    messages: AtomicU64,
}

/// What a proxy has carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProxyCounts {
    /// Channels that ended by their sender's close, all messages carried.
    pub closed: u64,
    /// Channels that ended otherwise.
    pub broken: u64,
    /// Messages of the channels that were closed.
    pub messages: u64,
}

impl ChannelProxy {
    /// The end beside the sending programs: each connects to the Unix socket `path` and opens a channel
    /// ([`ChannelSender::open`]), which is carried over a circuit of its own to the far end at `far`.
    ///
    /// # Errors
    /// A transport that does not carry messages whole, in order and to other hosts; a path that is taken.
    pub fn near(
        path: &Path,
        (transport, options): (&'static dyn Transport, Options),
        far: SocketAddr,
    ) -> io::Result<ChannelProxy> {
        check_carrier(transport, &options)?;
        Ok(ChannelProxy::new(End::Near {
            programs: NamedListener::bind(path)?,
            carrier: Box::new(Carrier { transport, options }),
            far,
        }))
    }

    /// The end beside the receiving program, which listens at the Unix socket `program` and accepts a
    /// channel with rings of `geometry` from each connection ([`ChannelReceiver::accept`]). Circuits are accepted at `listen`.
    ///
    /// # Errors
    /// Those of [`near`](ChannelProxy::near); an address that cannot be bound.
    pub fn far(
        listen: SocketAddr,
        (transport, options): (&'static dyn Transport, Options),
        program: &Path,
        geometry: Geometry,
    ) -> io::Result<ChannelProxy> {
        check_carrier(transport, &options)?;
        let circuits = transport.listen(&Options {
            bind: Some(listen.ip()),
            bind_port: listen.port(),
            ..options
        })?;
        let bound = socket::decode_address(&circuits.rendezvous()?.bytes)?;
        if listen.port() != 0 && bound.port() != listen.port() {
            let text = format!(
                "{} chooses its port itself; give port 0, and the near end the port that is printed",
                transport.name()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        Ok(ChannelProxy::new(End::Far {
            circuits,
            program: program.to_owned(),
            geometry,
        }))
    }

    fn new(end: End) -> ChannelProxy {
        ChannelProxy {
            end,
            channels_max: CHANNELS_MAX,
            shared: Arc::new(Shared {
                log: Box::new(|_| {}),
                carried_now: AtomicUsize::new(0),
                closed: AtomicU64::new(0),
                broken: AtomicU64::new(0),
                messages: AtomicU64::new(0),
            }),
        }
    }

    /// Sets the most channels carried at once; further ones wait.
    pub fn set_channels_max(&mut self, count: usize) {
        self.channels_max = count.max(1);
    }

    /// Sets what tells the user of channels that break. Call it before [`run`](ChannelProxy::run).
    pub fn set_log(&mut self, log: impl Fn(&str) + Send + Sync + 'static) {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.log = Box::new(log);
        }
    }

    /// The address at which circuits are accepted; None for a near end.
    ///
    /// # Errors
    /// What the listener refuses.
    pub fn local_addr(&self) -> io::Result<Option<SocketAddr>> {
        match &self.end {
            End::Near { .. } => Ok(None),
            End::Far { circuits, .. } => {
                socket::decode_address(&circuits.rendezvous()?.bytes).map(Some)
            }
        }
    }

    /// What has been carried so far.
    pub fn counts(&self) -> ProxyCounts {
        ProxyCounts {
            closed: self.shared.closed.load(Ordering::Relaxed),
            broken: self.shared.broken.load(Ordering::Relaxed),
            messages: self.shared.messages.load(Ordering::Relaxed),
        }
    }

    /// Carries channels until `stop` is set. Those under way then have two seconds to end; the end of the
    /// process breaks the others.
    ///
    /// # Errors
    /// A listener that fails; what is wrong with one channel only breaks that one.
    pub fn run(&mut self, stop: &AtomicBool) -> io::Result<()> {
        while !stop.load(Ordering::Relaxed) {
            if self.shared.carried_now.load(Ordering::Acquire) >= self.channels_max {
                thread::sleep(LOOK_INTERVAL);
                continue;
            }
            match self.take_one() {
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
                Ok(job) => self.shared.start(job),
            }
        }
        self.shared.wait_for_ends();
        Ok(())
    }

    /// Waits a moment for the next channel; gives what carries it.
    fn take_one(&mut self) -> io::Result<Job> {
        let deadline = Instant::now() + LOOK_INTERVAL;
        match &mut self.end {
            End::Near {
                programs,
                carrier,
                far,
            } => {
                let program = programs.accept(deadline)?;
                let (carrier, far) = (carrier.clone(), *far);
                Ok(Box::new(move || take_out(program, &carrier, far)))
            }
            End::Far {
                circuits,
                program,
                geometry,
            } => {
                let mut circuit = circuits.accept(deadline)?;
                let (program, geometry) = (program.clone(), *geometry);
                Ok(Box::new(move || {
                    let sender = open_to(&program, geometry)?;
                    carry_in(&mut *circuit, sender, |_| {})
                }))
            }
        }
    }
}

/// Carries one channel; how many messages there were.
type Job = Box<dyn FnOnce() -> io::Result<u64> + Send>;

impl Shared {
    /// Runs `job` in a thread of its own, and counts how it ends.
    fn start(self: &Arc<Self>, job: Job) {
        self.carried_now.fetch_add(1, Ordering::AcqRel);
        let own = Arc::clone(self);
        let thread = thread::Builder::new().name("channel-proxy".into());
        let started = thread.spawn(move || {
            let carried = job();
            own.count(carried);
        });
        if let Err(error) = started {
            self.count(Err(error));
        }
    }

    /// Waits until no channel is under way, for [`DRAIN_TIMEOUT`] at most.
    fn wait_for_ends(&self) {
        let deadline = Instant::now() + DRAIN_TIMEOUT;
        while self.carried_now.load(Ordering::Acquire) > 0 && Instant::now() < deadline {
            thread::sleep(DRAIN_INTERVAL);
        }
    }

    fn count(&self, carried: io::Result<u64>) {
        match carried {
            Ok(messages) => {
                self.closed.fetch_add(1, Ordering::Relaxed);
                self.messages.fetch_add(messages, Ordering::Relaxed);
            }
            Err(error) => {
                self.broken.fetch_add(1, Ordering::Relaxed);
                (self.log)(&format!("a channel broke: {error}"));
            }
        }
        self.carried_now.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Takes the channel of a program that has connected, and carries it to the far end.
fn take_out(program: UnixStream, carrier: &Carrier, far: SocketAddr) -> io::Result<u64> {
    program.set_read_timeout(Some(OPENING_TIMEOUT))?;
    let mut receiver = ChannelReceiver::accept(program, Signal::Futex).map_err(to_io_error)?;
    let rendezvous = Rendezvous {
        reach: crate::Reach::Network,
        bytes: socket::encode_address(far),
        descriptors: Vec::new(),
    };
    let connected = carrier.transport.connect(&rendezvous, 0, &carrier.options);
    let mut circuit = connected.map_err(|error| {
        let text = format!("no far end answers at {far}: {error}; start it there");
        io::Error::new(error.kind(), text)
    })?;
    carry_out(&mut receiver, &mut *circuit)
}

/// Opens a channel to the program that listens at `path`.
fn open_to(path: &Path, geometry: Geometry) -> io::Result<ChannelSender> {
    let connected = UnixStream::connect(path).map_err(|error| {
        let path = path.display();
        let text = format!("no program accepts channels at {path}: {error}; start it first");
        io::Error::new(error.kind(), text)
    })?;
    ChannelSender::open(connected, geometry, Signal::Futex).map_err(to_io_error)
}

/// Refuses transports that would change, lose or reorder messages, and those that stay on the host.
fn check_carrier(transport: &dyn Transport, options: &Options) -> io::Result<()> {
    let class = transport.class_with(&options.transport_specific);
    let is_able = class.reliable
        && class.ordered
        && !class.stream
        && class.connects
        && class.half_close
        && class.reach == crate::Reach::Network;
    if is_able {
        return Ok(());
    }
    let text = format!(
        "{} does not carry messages whole, in order and to another host; take xtp-message",
        transport.name()
    );
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

/// Errors after which a listener goes on: nobody came, or a peer went before it was accepted.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, Interrupted, TimedOut, WouldBlock};
    matches!(
        error.kind(),
        WouldBlock | TimedOut | Interrupted | ConnectionAborted
    )
}

/// A Unix socket with a name in the file system, which goes with it.
struct NamedListener {
    listener: UnixListener,
    path: PathBuf,
}

impl NamedListener {
    /// Listens at `path`. A socket that a killed process left there is replaced, anything else is not.
    fn bind(path: &Path) -> io::Result<NamedListener> {
        if is_left_over(path) {
            fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path).map_err(|error| {
            let text = format!(
                "cannot listen at {}: {error}; choose another path",
                path.display()
            );
            io::Error::new(error.kind(), text)
        })?;
        listener.set_nonblocking(true)?;
        let path = path.to_owned();
        Ok(NamedListener { listener, path })
    }

    fn accept(&self, deadline: Instant) -> io::Result<UnixStream> {
        socket::wait(self.listener.as_fd(), Interest::Read, deadline)?;
        // On Linux what is accepted blocks, whatever the listener does (accept(2)).
        self.listener.accept().map(|(stream, _)| stream)
    }
}

impl Drop for NamedListener {
    fn drop(&mut self) {
        // Its user may have removed it.
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether there is a socket at `path` that nobody listens at.
fn is_left_over(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    is_socket
        && UnixStream::connect(path)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}
