//! What a transport must offer.

use crate::Options;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a blocking call waits at most before it gives `WouldBlock`, so that a loop notices
/// that it should end.
pub const BLOCKING_TIMEOUT: Duration = Duration::from_millis(20);

/// A way to move messages between two processes.
pub trait Transport: Send + Sync {
    /// Its name on the command line and in results.
    fn name(&self) -> &'static str;

    /// One line: what it is and how it is called.
    fn summary(&self) -> &'static str;

    /// What it promises and where it runs.
    fn class(&self) -> Class;

    /// As [`class`](Transport::class), for circuits with the options `own`.
    fn class_with(&self, _own: &BTreeMap<String, String>) -> Class {
        self.class()
    }

    /// Whether one end sends and several receive: messages go one way only, from the connecting side,
    /// and count as received when all have them.
    fn is_one_to_many(&self) -> bool {
        false
    }

    /// Whether it can be used here and now.
    ///
    /// # Errors
    ///
    /// The reason it cannot, and what would change that.
    fn available(&self, options: &Options) -> Result<(), Unavailable>;

    /// The options only this transport knows, which [`Options::own`] may hold.
    fn options(&self) -> &'static [OptionHelp] {
        &[]
    }

    /// Whether `own` can be an [`Options::own`] of this transport. A transport with options checks
    /// their values here, so that a race refuses a wrong one before it starts.
    ///
    /// # Errors
    ///
    /// A sentence that names the option and what would be right.
    fn check_options(&self, own: &BTreeMap<String, String>) -> Result<(), String> {
        let known = |key: &str| self.options().iter().any(|option| option.name == key);
        match own.keys().find(|key| !known(key)) {
            None => Ok(()),
            Some(key) => {
                let names: Vec<&str> = self.options().iter().map(|option| option.name).collect();
                let has = if names.is_empty() {
                    "has none of its own".to_owned()
                } else {
                    format!("has {}", names.join(", "))
                };
                Err(format!("{} has no option '{key}'; it {has}", self.name()))
            }
        }
    }

    /// Waits for peers. Binds to a free port or name.
    ///
    /// # Errors
    ///
    /// The system's, with the thing that failed in the message.
    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>>;

    /// Makes circuit number `index` (below `options.circuits`) to a listener.
    ///
    /// # Errors
    ///
    /// The system's.
    fn connect(
        &self,
        rendezvous: &Rendezvous,
        index: usize,
        options: &Options,
    ) -> io::Result<Box<dyn Circuit>>;
}

/// An option of one transport, for its users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionHelp {
    /// Its name, as typed: `NAME=VALUE`.
    pub name: &'static str,
    /// The values it may have, the default first: `on|off`, or `BYTES`.
    pub values: &'static str,
    /// One line: what it does.
    pub meaning: &'static str,
}

/// The waiting side.
pub trait Listener: Send {
    /// How to find it.
    ///
    /// # Errors
    ///
    /// The system's.
    fn rendezvous(&self) -> io::Result<Rendezvous>;

    /// The next circuit.
    ///
    /// Connection-oriented transports wait for a peer. A connectionless one gives a circuit at
    /// once, which learns its peer from the first message it receives; until then its sends give
    /// `NotConnected`. With `options.circuits` above 1, circuit `n` accepted is circuit `n` of the
    /// connecting side where the class is connectionless; others come in the order of connecting.
    ///
    /// # Errors
    ///
    /// `TimedOut` when none came before `deadline`, or the system's.
    fn accept(&mut self, deadline: Instant) -> io::Result<Box<dyn Circuit>>;
}

/// One end of a circuit. All calls are made from one thread.
///
/// Measuring loops call [`send_shared_run`](Circuit::send_shared_run) and [`recv_run`](Circuit::recv_run): one
/// dynamic call for many messages, inside which the calls for each message are static.
pub trait Circuit: Send {
    /// Sends one message whole, without blocking.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when it was not taken; a byte stream that took a part remembers the rest and
    /// sends it first at the next call, and counts the message as taken.
    fn try_send(&mut self, message: &[u8]) -> io::Result<()>;

    /// Receives one message, or on a byte stream what is there, without blocking. None is the end.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when nothing is there.
    fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>>;

    /// Sends one message whole, blocking.
    ///
    /// # Errors
    ///
    /// `WouldBlock` after [`PATIENCE`] (nothing was taken), or the system's.
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        let deadline = Instant::now() + BLOCKING_TIMEOUT;
        loop {
            match self.try_send(message) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(Interest::Write, deadline)?;
                }
                other => return other,
            }
            if Instant::now() >= deadline {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
    }

    /// Receives one message, or on a byte stream at least a byte, blocking. None is the end.
    ///
    /// # Errors
    ///
    /// `WouldBlock` after [`PATIENCE`], or the system's.
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let mut deadline = None;
        loop {
            match self.try_recv(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let deadline =
                        *deadline.get_or_insert_with(|| Instant::now() + BLOCKING_TIMEOUT);
                    if Instant::now() >= deadline {
                        return Err(error);
                    }
                    self.wait(Interest::Read, deadline)?;
                }
                other => return other,
            }
        }
    }

    /// Sends `message` up to `count` times, blocking; gives how often it was taken, at least once.
    ///
    /// # Errors
    ///
    /// As [`send`](Circuit::send), if not even the first was taken.
    fn send_run(&mut self, message: &[u8], count: usize) -> io::Result<usize> {
        for done in 0..count {
            match self.send(message) {
                Ok(()) => {}
                Err(_) if done > 0 => return Ok(done),
                Err(error) => return Err(error),
            }
        }
        Ok(count)
    }

    /// As [`send_run`](Circuit::send_run), from memory that stays as it is while somebody shares it:
    /// a transport that can sends it from there, without a copy of its own, and lets go of it when
    /// the peer has it.
    ///
    /// # Errors
    ///
    /// As [`send`](Circuit::send), if not even the first was taken.
    fn send_shared_run(&mut self, message: &Arc<[u8]>, count: usize) -> io::Result<usize> {
        self.send_run(message, count)
    }

    /// Receives up to `calls` times, blocking. None is the end.
    ///
    /// # Errors
    ///
    /// As [`recv`](Circuit::recv), if the first call brought nothing.
    fn recv_run(&mut self, buffer: &mut [u8], calls: usize) -> io::Result<Option<ReceiveCounts>> {
        let mut arrived = ReceiveCounts::default();
        for _ in 0..calls {
            match self.recv(buffer) {
                Ok(Some(len)) => arrived.add(len),
                Ok(None) if arrived.calls > 0 => return Ok(Some(arrived)),
                Ok(None) => return Ok(None),
                Err(_) if arrived.calls > 0 => return Ok(Some(arrived)),
                Err(error) => return Err(error),
            }
        }
        Ok(Some(arrived))
    }

    /// Sends on everything the circuit still holds back to fill a packet or a buffer.
    ///
    /// A message that must leave now needs it, or a receive or a wait after it.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when there was no room for all of it within [`PATIENCE`], or the system's.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Ends this direction: the peer's `recv` gives None once it has everything. A connectionless
    /// transport can only flush.
    ///
    /// # Errors
    ///
    /// `WouldBlock` as [`flush`](Circuit::flush), to be tried again, or the system's.
    fn finish(&mut self) -> io::Result<()>;

    /// Sleeps until the circuit may be ready or `deadline` has come. Flushes first.
    ///
    /// # Errors
    ///
    /// The system's.
    fn wait(&mut self, interest: Interest, deadline: Instant) -> io::Result<()>;

    /// A descriptor that tells of readiness by poll, for a caller's own loop.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// When the circuit wants to be called although nothing arrived.
    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    /// Options as they took effect, read back from the system: `congestion`, `send_buffer`,
    /// `receive_buffer`, `nodelay`, `segmentation`, ...
    fn effective(&self) -> BTreeMap<String, String>;

    /// Counts of the transport, as evidence: `retransmissions`, `receive_drops`, `packets_sent`,
    /// `packets_received`, `send_calls`, `receive_calls` (calls of the system, tries included),
    /// `no_buffers` (sends a device queue refused), ... What a transport cannot know it leaves out.
    fn counts(&self) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }
}

/// What a run of receives brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveCounts {
    /// Messages on a message transport, reads on a byte stream.
    pub messages: u64,
    /// User bytes.
    pub bytes: u64,
    /// Calls that brought something.
    pub calls: u64,
}

impl ReceiveCounts {
    /// Counts a call that brought one message, or one read, of `len` bytes.
    #[inline]
    pub fn add(&mut self, len: usize) {
        self.messages += 1;
        self.bytes += len as u64;
        self.calls += 1;
    }

    /// Adds what another call or run brought.
    #[inline]
    pub fn merge(&mut self, more: ReceiveCounts) {
        self.messages += more.messages;
        self.bytes += more.bytes;
        self.calls += more.calls;
    }
}

/// What a waiter waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Something to receive, or the end.
    Read,
    /// Room to send.
    Write,
}

/// How to find a listener.
#[derive(Debug)]
pub struct Rendezvous {
    /// How far it reaches.
    pub reach: Reach,
    /// Its address, in a form the transport alone understands.
    pub bytes: Vec<u8>,
    /// Descriptors that travel with it. A pipe's end shows only when every copy of its writing end
    /// is closed, so drop the rendezvous once all circuits are connected.
    pub descriptors: Vec<OwnedFd>,
}

/// How far apart two ends may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Processes that can pass descriptors to each other.
    Process,
    /// Processes of one host (and one network namespace).
    Host,
    /// Hosts on a network.
    Network,
}

/// What a transport promises and where it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// Everything sent arrives, or an error tells.
    pub reliable: bool,
    /// What arrives, arrives in the order sent.
    pub ordered: bool,
    /// Nobody on the path can read it.
    pub encrypted: bool,
    /// A byte stream without message boundaries.
    pub stream: bool,
    /// The protocol runs in the kernel, else in the user's process.
    pub kernel: bool,
    /// No set-up: the first message opens the circuit.
    pub connectionless: bool,
    /// New circuits can be made again and again, so set-up can be measured.
    pub connects: bool,
    /// The sender is held back when the receiver is slow.
    pub flow_control: bool,
    /// How far it reaches.
    pub reach: Reach,
    /// What guards against damage on the way.
    pub checksum: &'static str,
    /// How congestion is controlled; empty for not at all.
    pub congestion: &'static str,
    /// What is batched or offloaded.
    pub offload: &'static str,
}

/// Why a transport cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// What is missing.
    pub reason: String,
    /// What would change that.
    pub remedy: String,
}
