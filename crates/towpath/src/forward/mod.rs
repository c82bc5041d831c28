//! TCP programs over XTP: what one end of a forwarder does.
//!
//! A forwarder stands at each end of a path. The near one takes TCP connections and opens a circuit
//! of XTP for each ([`Forwarder::to_xtp`]); the far one takes circuits and opens a TCP connection for
//! each ([`Forwarder::from_xtp`]). Both directions are carried as they come, each ends by itself, and
//! a connection that breaks on one side is broken on the other.
//!
//! One thread serves all connections of an endpoint: it waits for the endpoint's watch and for the
//! sockets together (`line` is one connection). A side that is not read from fills its socket or its
//! window, and then the other is not read from either: a connection holds at most 64 KiB each way
//! besides what socket and circuit hold.

mod line;
mod plug;

pub use plug::{Handed, Plug};

use crate::xtp::{Circuit, Endpoint, Settings, Watch};
use engine::AssociationId;
use line::{Line, Step};
use rustix::event::{Timespec, epoll};
use socket2::{Domain, Socket, Type};
use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

/// Connections a forwarder carries at once unless told otherwise; those beyond wait unaccepted.
pub const CONNECTIONS: usize = 1000;

/// How often the loop looks around although nothing happened: whether to stop, and whose opening
/// takes too long.
const LOOK: Duration = Duration::from_millis(100);

/// How long a peer or a target may take to answer an opening.
const OPENING_LIMIT: Duration = Duration::from_secs(10);

/// How long the end waits for what is on its way.
const LINGER: Duration = Duration::from_secs(1);

/// Names of what is waited for; connections are numbered from the next on.
const WATCH: u64 = 0;
const LISTENER: u64 = 1;
const BELL: u64 = 2;
const FIRST_LINE: u64 = 3;

/// What became of the connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Taken so far.
    pub opened: u64,
    /// Ended in good order on both sides.
    pub ended: u64,
    /// Broken by one side, or refused.
    pub broken: u64,
    /// User bytes from TCP to XTP.
    pub sent_bytes: u64,
    /// User bytes from XTP to TCP.
    pub received_bytes: u64,
}

/// Where connections come from, and go to.
enum Source {
    Tcp(TcpListener, SocketAddr),
    Xtp(SocketAddr),
    Handed(Handed),
}

/// One end of a forwarder.
pub struct Forwarder {
    source: Source,
    endpoint: Endpoint,
    watch: Watch,
    epoll: OwnedFd,
    lines: HashMap<u64, Line>,
    by_circuit: HashMap<AssociationId, u64>,
    next: u64,
    connections_max: usize,
    /// The listener is not waited for while there are as many connections as may be.
    full: bool,
    chunk: usize,
    opening_limit: Duration,
    /// Nobody can hand over any more.
    is_last: bool,
    counts: Counts,
}

impl Forwarder {
    /// Takes TCP connections at `listen` and opens a circuit to the forwarder at `peer` for each.
    ///
    /// # Errors
    ///
    /// What the kernel says about the addresses.
    pub fn to_xtp(
        listen: SocketAddr,
        peer: SocketAddr,
        settings: &Settings,
    ) -> io::Result<Forwarder> {
        let listener = TcpListener::bind(listen)?;
        listener.set_nonblocking(true)?;
        let endpoint = Endpoint::bind(crate::socket::unspecified(&peer), settings)?;
        Forwarder::new(Source::Tcp(listener, peer), endpoint, settings)
    }

    /// Takes circuits at `listen` and opens a TCP connection to `target` for each.
    ///
    /// # Errors
    ///
    /// What the kernel says about the address.
    pub fn from_xtp(
        listen: SocketAddr,
        target: SocketAddr,
        settings: &Settings,
    ) -> io::Result<Forwarder> {
        let endpoint = Endpoint::bind(listen, settings)?;
        endpoint.listen(true);
        Forwarder::new(Source::Xtp(target), endpoint, settings)
    }

    /// Carries what a program of this process hands over: sockets whose other ends it keeps.
    ///
    /// # Errors
    ///
    /// When the process is out of descriptors.
    pub fn handed(
        endpoint: Endpoint,
        handed: Handed,
        settings: &Settings,
    ) -> io::Result<Forwarder> {
        Forwarder::new(Source::Handed(handed), endpoint, settings)
    }

    fn new(source: Source, endpoint: Endpoint, settings: &Settings) -> io::Result<Forwarder> {
        let watch = endpoint.watch()?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let readable = epoll::EventFlags::IN;
        let name = epoll::EventData::new_u64;
        epoll::add(&epoll, watch.descriptor(), name(WATCH), readable)?;
        match &source {
            Source::Tcp(listener, _) => epoll::add(&epoll, listener, name(LISTENER), readable)?,
            Source::Handed(handed) => epoll::add(&epoll, &handed.bell, name(BELL), readable)?,
            Source::Xtp(_) => {}
        }
        let opening_limit = match &source {
            Source::Handed(handed) => handed.opening_limit,
            _ => OPENING_LIMIT,
        };
        Ok(Forwarder {
            source,
            endpoint,
            watch,
            epoll,
            lines: HashMap::new(),
            by_circuit: HashMap::new(),
            next: FIRST_LINE,
            connections_max: CONNECTIONS,
            full: false,
            // A circuit takes half of its store at once at most.
            chunk: (settings.send_queue_len / 4).clamp(1024, 64 << 10),
            opening_limit,
            is_last: false,
            counts: Counts::default(),
        })
    }

    /// Sets how many connections are carried at once, at least one; others wait.
    pub fn set_connections_max(&mut self, connections_max: usize) {
        self.connections_max = connections_max.max(1);
    }

    /// Where it takes connections: a TCP address, or a UDP one for XTP.
    ///
    /// # Errors
    ///
    /// What the kernel says; none are known for a bound socket.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match &self.source {
            Source::Tcp(listener, _) => listener.local_addr(),
            Source::Xtp(_) | Source::Handed(_) => Ok(self.endpoint.local_addr()),
        }
    }

    /// The endpoint its circuits are on.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// What became of the connections so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Connections it carries now.
    pub fn connections(&self) -> usize {
        self.lines.len()
    }

    /// Carries connections until `stop` is set, seen within a tenth of a second, or until all have
    /// ended that a program handed over and can hand over.
    ///
    /// # Errors
    ///
    /// The kernel's, about the endpoint; what happens to one connection ends only that one.
    pub fn run(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut buffer = vec![0; self.chunk];
        let (mut ready, mut again) = (Vec::new(), Vec::new());
        let mut looked = Instant::now();
        while !stop.load(Ordering::Relaxed) && !self.is_over() {
            // Those with more to do have had their turn; others come first.
            let limit = if again.is_empty() {
                LOOK
            } else {
                Duration::ZERO
            };
            let mut todo = std::mem::take(&mut again);
            self.wait(limit, &mut todo)?;
            let accepts = self.watch.ready(&mut ready)?;
            let named = ready.drain(..).filter_map(|id| self.by_circuit.get(&id));
            todo.extend(named.copied());
            if accepts {
                self.accept_circuits(&mut todo);
            }
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                let opening = self.lines.iter().filter(|(_, line)| line.is_opening());
                todo.extend(opening.map(|(&name, _)| name));
                self.take_more()?;
            }
            todo.sort_unstable();
            todo.dedup();
            for name in todo {
                if self.serve(name, &mut buffer) == Step::Again {
                    again.push(name);
                }
            }
        }
        self.end();
        Ok(())
    }

    /// Sleeps until something happens; adds the connections to which it did.
    fn wait(&mut self, limit: Duration, todo: &mut Vec<u64>) -> io::Result<()> {
        let patience = self.watch.patience()?;
        let limit = patience.map_or(limit, |patience| patience.min(limit));
        let limit = Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: i64::from(limit.subsec_nanos()),
        };
        let mut events = [const {
            epoll::Event {
                flags: epoll::EventFlags::empty(),
                data: epoll::EventData::new_u64(0),
            }
        }; 64];
        let count = match epoll::wait(&self.epoll, &mut events, Some(&limit)) {
            Err(rustix::io::Errno::INTR) => 0,
            other => other?,
        };
        for event in &events[..count] {
            match event.data.u64() {
                WATCH => {}
                LISTENER => self.accept_connections(todo),
                BELL => self.take_handed(todo),
                name => {
                    if let Some(line) = self.lines.get_mut(&name) {
                        line.note(event.flags);
                        todo.push(name);
                    }
                }
            }
        }
        Ok(())
    }

    fn accept_connections(&mut self, todo: &mut Vec<u64>) {
        while self.lines.len() < self.connections_max {
            let Source::Tcp(listener, peer) = &self.source else {
                return;
            };
            let Ok((tcp, _)) = listener.accept() else {
                // None is there, or it is gone again, or there are no descriptors left: the next
                // look tries again.
                return;
            };
            self.counts.opened += 1;
            let line = self
                .endpoint
                .begin(*peer)
                .and_then(|circuit| self.add(Box::new(tcp), circuit, false));
            match line {
                Ok(name) => todo.push(name),
                Err(_) => self.counts.broken += 1,
            }
        }
        self.full = true;
        self.listen_for(epoll::EventFlags::empty());
    }

    fn accept_circuits(&mut self, todo: &mut Vec<u64>) {
        while self.lines.len() < self.connections_max {
            if let Source::Tcp(..) = self.source {
                return;
            }
            let Ok(circuit) = self.endpoint.try_accept() else {
                return;
            };
            self.counts.opened += 1;
            let added = match &mut self.source {
                Source::Xtp(target) => {
                    connect(*target).and_then(|tcp| self.add(Box::new(tcp), circuit, true))
                }
                Source::Handed(handed) => {
                    let plug = (handed.accepted)(circuit.peer());
                    plug.and_then(|plug| self.add(plug, circuit, false))
                }
                Source::Tcp(..) => return,
            };
            match added {
                Ok(name) => todo.push(name),
                Err(_) => self.counts.broken += 1,
            }
        }
    }

    /// Takes what a program handed over.
    fn take_handed(&mut self, todo: &mut Vec<u64>) {
        let Source::Handed(handed) = &self.source else {
            return;
        };
        // Heard first: what is handed over from here on rings again.
        let _ = rustix::io::read(&handed.bell, &mut [0; 8]);
        let mut all = Vec::new();
        let is_last = loop {
            match handed.more.try_recv() {
                Ok(more) => all.push(more),
                Err(error) => break error == TryRecvError::Disconnected,
            }
        };
        if is_last && !self.is_last {
            self.is_last = true;
            self.endpoint.listen(false);
        }
        for (plug, circuit) in all {
            self.counts.opened += 1;
            match self.add(plug, circuit, false) {
                Ok(name) => todo.push(name),
                Err(_) => self.counts.broken += 1,
            }
        }
    }

    /// Whether nothing is carried, and nothing can come any more.
    fn is_over(&self) -> bool {
        self.is_last && self.lines.is_empty()
    }

    /// Listens again when there is room again.
    fn take_more(&mut self) -> io::Result<()> {
        if self.full && self.lines.len() < self.connections_max {
            self.full = false;
            self.listen_for(epoll::EventFlags::IN);
        }
        Ok(())
    }

    fn listen_for(&self, flags: epoll::EventFlags) {
        if let Source::Tcp(listener, _) = &self.source {
            // The descriptor is there, and was added.
            let _ = epoll::modify(
                &self.epoll,
                listener,
                epoll::EventData::new_u64(LISTENER),
                flags,
            );
        }
    }

    fn add(&mut self, tcp: Box<dyn Plug>, circuit: Circuit, connecting: bool) -> io::Result<u64> {
        tcp.prepare()?;
        let name = self.next;
        self.next += 1;
        let both = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        epoll::add(
            &self.epoll,
            tcp.as_fd(),
            epoll::EventData::new_u64(name),
            both,
        )?;
        self.by_circuit.insert(circuit.id(), name);
        let line = Line::new(
            tcp,
            circuit,
            connecting,
            Instant::now() + self.opening_limit,
        );
        self.lines.insert(name, line);
        Ok(name)
    }

    fn serve(&mut self, name: u64, buffer: &mut [u8]) -> Step {
        let Some(line) = self.lines.get_mut(&name) else {
            return Step::Waits;
        };
        let step = line.pump(buffer, &mut self.counts);
        let (ended, broken) = match step {
            Step::Waits | Step::Again => return step,
            Step::Ended => (1, 0),
            Step::Broken => (0, 1),
        };
        self.counts.ended += ended;
        self.counts.broken += broken;
        if let Some(line) = self.lines.remove(&name) {
            self.by_circuit.remove(&line.circuit_id());
            line.close(step == Step::Broken);
        }
        step
    }

    /// Breaks what is still open, and lets the peer know.
    fn end(&mut self) {
        self.endpoint.listen(false);
        for (_, line) in self.lines.drain() {
            self.counts.broken += 1;
            line.close(true);
        }
        self.by_circuit.clear();
        let end = Instant::now() + LINGER;
        // What ended before may still be on its way.
        while self.endpoint.holdings().associations > 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Begins a connection to `target`.
fn connect(target: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(target), Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    match socket.connect(&target.into()) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
        Err(error) => return Err(error),
    }
    Ok(socket.into())
}
