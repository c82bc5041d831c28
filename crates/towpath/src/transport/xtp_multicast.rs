//! xtp-multicast: one sender, many receivers in the listening process, each with a socket and a
//! thread of its own.
//!
//! The receiving circuit delivers only bytes that *all* receivers have: its own receiver does not
//! read past the slowest of the others. So a rate is that of the slowest receiver, and a delay ends
//! when the last one has the message. The sender first waits until all have joined.

use crate::contract::{
    BLOCKING_TIMEOUT, Circuit, Class, Interest, LentArrival, Listener, Note, OptionHelp, Part,
    Reach, Rendezvous, Reserved, Transport, Unavailable,
};
use crate::medium::source_address_to;
use crate::options::{Family, Options};
use crate::parts;
use crate::socket;
use crate::xtp::group::{GroupEndpointConfig, Receiver, Sender, Stream, example_group};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long receivers may take to join.
const JOIN_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a dropped sender waits until all receivers have acknowledged.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// How often a receiver's thread checks whether to stop.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Default and maximum number of receivers; each takes two threads.
const RECEIVERS_DEFAULT: usize = 8;
const RECEIVERS_MAX: usize = 100;

/// A receiver's window. 2 MiB: receivers share CPUs, and while one reads, data queue up at the
/// others. A status request is sent every quarter of it: each receiver replies to each, and a reply
/// that wakes the sender costs a receiver as much as copying 30 KiB.
const WINDOW: u64 = 2 << 20;

/// The send buffer. Two windows: the user writes one while the other is in flight.
const SEND_BUFFER_LEN: usize = 4 << 20;

const HELP: &[OptionHelp] = &[OptionHelp {
    name: "receivers",
    values: "8|1..100",
    meaning: "receivers in the listening process, each with a socket and a thread",
}];

/// XTP to a group.
#[derive(Debug)]
pub struct XtpMulticast;

fn parse_receivers(own: &BTreeMap<String, String>) -> Result<usize, String> {
    let Some(text) = own.get("receivers") else {
        return Ok(RECEIVERS_DEFAULT);
    };
    let count = text.parse().ok();
    count
        .filter(|count| (1..=RECEIVERS_MAX).contains(count))
        .ok_or_else(|| format!("receivers of '{text}' are out of range, from 1 to {RECEIVERS_MAX}"))
}

fn settings(options: &Options) -> io::Result<(usize, GroupEndpointConfig)> {
    let wrong = |text| io::Error::new(io::ErrorKind::InvalidInput, text);
    let count = parse_receivers(&options.transport_specific).map_err(wrong)?;
    let mut settings = GroupEndpointConfig::for_members(count);
    settings.config.window = WINDOW;
    settings.config.status_interval_bytes = WINDOW / 4;
    settings.send_buffer_len = SEND_BUFFER_LEN;
    if let Some(len) = options.buffers {
        settings.socket_buffer_len = len;
    }
    Ok((count, settings))
}

impl Transport for XtpMulticast {
    fn name(&self) -> &'static str {
        "xtp-multicast"
    }

    fn summary(&self) -> &'static str {
        "XTP 4.0 to a multicast group, one sender to 8 receivers or receivers=N, at the pace of the slowest"
    }

    fn options(&self) -> &'static [OptionHelp] {
        HELP
    }

    fn check_options(&self, own: &BTreeMap<String, String>) -> Result<(), String> {
        match own.keys().find(|key| *key != "receivers") {
            Some(key) => Err(format!("xtp-multicast has no option '{key}'")),
            None => parse_receivers(own).map(|_| ()),
        }
    }

    fn class(&self) -> Class {
        Class {
            reliable: true,
            ordered: true,
            encrypted: false,
            stream: true,
            kernel: false,
            connectionless: false,
            connects: false,
            flow_control: true,
            half_close: false,
            calls: false,
            reach: Reach::Network,
            checksum: "Internet, 16 bit, by UDP; XTP's own over headers",
            congestion: "",
            offload: "UDP segmentation and coalescing by the kernel",
        }
    }

    fn is_one_to_many(&self) -> bool {
        true
    }

    fn available(&self, options: &Options) -> Result<(), Unavailable> {
        if options.family == Family::V6 && options.bind.is_none() {
            return Err(Unavailable {
                reason: "the loopback has no route for groups of IPv6".into(),
                remedy: "use IPv4, or hosts with a link between them".into(),
            });
        }
        Ok(())
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        let (count, settings) = settings(options)?;
        let local = options.bind_address();
        let mut groups = Vec::new();
        for _ in 0..options.circuits.max(1) {
            let group = example_group();
            let join = |_| Receiver::join(group, local, &settings);
            let joined: io::Result<Vec<Receiver>> = (0..count).map(join).collect();
            groups.push((group, joined?));
        }
        groups.reverse();
        let line = |(group, _): &(SocketAddr, _)| format!("{group} {local}");
        let lines: Vec<String> = groups.iter().rev().map(line).collect();
        Ok(Box::new(GroupListener { groups, lines }))
    }

    fn connect(
        &self,
        rendezvous: &Rendezvous,
        index: usize,
        options: &Options,
    ) -> io::Result<Box<dyn Circuit>> {
        let (_, settings) = settings(options)?;
        let line = socket::rendezvous_entry(&rendezvous.bytes, index)?;
        let unclear = || io::Error::new(io::ErrorKind::InvalidData, "the rendezvous is no group");
        let text = std::str::from_utf8(line).map_err(|_| unclear())?;
        let (group, listener) = text.split_once(' ').ok_or_else(unclear)?;
        let group = group.parse().map_err(|_| unclear())?;
        let listener = listener.parse().map_err(|_| unclear())?;
        let local = source_address_to(SocketAddr::new(listener, 0))?;
        let mut sender = Sender::open(group, local, &settings)?;
        sender.wait_ready(JOIN_TIMEOUT)?;
        Ok(Box::new(GroupSenderCircuit { sender }))
    }
}

struct GroupListener {
    /// Groups not accepted yet, in reverse order.
    groups: Vec<(SocketAddr, Vec<Receiver>)>,
    lines: Vec<String>,
}

impl Listener for GroupListener {
    fn rendezvous(&self) -> io::Result<Rendezvous> {
        Ok(Rendezvous {
            reach: Reach::Network,
            bytes: self.lines.join("\n").into_bytes(),
            descriptors: Vec::new(),
        })
    }

    fn accept(&mut self, deadline: Instant) -> io::Result<Box<dyn Circuit>> {
        let none = || io::Error::new(io::ErrorKind::TimedOut, "every group has its sender");
        let (_, mut receivers) = self.groups.pop().ok_or_else(none)?;
        let limit = deadline.saturating_duration_since(Instant::now());
        let first_receiver = receivers.swap_remove(0);
        let others = Arc::new(OtherReceivers::new(receivers.len()));
        for (index, receiver) in receivers.into_iter().enumerate() {
            let others = Arc::clone(&others);
            std::thread::Builder::new()
                .name("towpath-receiver".into())
                .spawn(move || others.receive(index, &receiver, limit))?;
        }
        let stream = first_receiver.accept(limit)?;
        Ok(Box::new(GroupReceiverCircuit {
            stream,
            first_receiver,
            others,
            received: 0,
        }))
    }
}

/// The receivers besides the one that delivers to the user.
struct OtherReceivers {
    /// Bytes each has received; `u64::MAX` once its stream ended.
    received: Vec<AtomicU64>,
    bytes: Vec<AtomicU64>,
    failed: Mutex<Option<String>>,
    stopped: AtomicBool,
    /// The position that a waiting circuit needs all to reach; 0 if none waits.
    awaited_position: AtomicU64,
    all_received: (Mutex<()>, Condvar),
}

impl OtherReceivers {
    fn new(count: usize) -> OtherReceivers {
        let zeros = || (0..count).map(|_| AtomicU64::new(0)).collect();
        OtherReceivers {
            received: zeros(),
            bytes: zeros(),
            failed: Mutex::new(None),
            stopped: AtomicBool::new(false),
            awaited_position: AtomicU64::new(0),
            all_received: (Mutex::new(()), Condvar::new()),
        }
    }

    /// One receiver's thread; ends with its stream or the circuit.
    fn receive(&self, index: usize, receiver: &Receiver, limit: Duration) {
        let done = receiver.accept(limit).and_then(|mut stream| {
            while !self.stopped.load(Ordering::Relaxed) {
                match stream.recv_in_place(|_| (), STOP_POLL_INTERVAL) {
                    Ok(Some(len)) => self.record_received(index, len as u64),
                    Ok(None) => return stream.close(CLOSE_TIMEOUT).or(Ok(())),
                    Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        });
        if let Err(error) = done {
            let text = format!("receiver {} beside the first: {error}", index + 1);
            let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            failed.get_or_insert(text);
        }
        self.received[index].store(u64::MAX, Ordering::SeqCst);
        self.notify_waiter();
    }

    fn record_received(&self, index: usize, len: u64) {
        let bytes = self.bytes[index].fetch_add(len, Ordering::Relaxed) + len;
        self.received[index].store(bytes, Ordering::SeqCst);
        self.notify_waiter();
    }

    /// Wakes the waiting circuit once all receivers have reached its position. A wake-up for each
    /// receiver would take as long as their work when they share a CPU.
    fn notify_waiter(&self) {
        let awaited = self.awaited_position.load(Ordering::SeqCst);
        if awaited != 0
            && self.min_received() >= awaited
            && self.awaited_position.swap(0, Ordering::AcqRel) != 0
        {
            let _lock = self
                .all_received
                .0
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            self.all_received.1.notify_all();
        }
    }

    /// Bytes that all of them have received.
    fn min_received(&self) -> u64 {
        let received = self.received.iter();
        let least = received.map(|bytes| bytes.load(Ordering::SeqCst)).min();
        least.unwrap_or(u64::MAX)
    }

    /// Waits until all of them have more than `position` bytes, at most a millisecond.
    fn wait(&self, position: u64) {
        let lock = self
            .all_received
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.awaited_position.store(position + 1, Ordering::SeqCst);
        if self.min_received() <= position {
            let short = Duration::from_millis(1);
            drop(self.all_received.1.wait_timeout(lock, short));
        }
    }

    fn check_failed(&self) -> io::Result<()> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        match &*failed {
            Some(text) => Err(io::Error::other(text.clone())),
            None => Ok(()),
        }
    }
}

struct GroupReceiverCircuit {
    stream: Stream,
    first_receiver: Receiver,
    others: Arc<OtherReceivers>,
    /// Bytes delivered to the user; all receivers have them.
    received: u64,
}

impl GroupReceiverCircuit {
    /// The part of `buffer` that may be filled: bytes that all other receivers have.
    fn readable_part<'a>(&self, buffer: &'a mut [u8]) -> io::Result<&'a mut [u8]> {
        let ahead = self.others.min_received().saturating_sub(self.received);
        let len = usize::try_from(ahead)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        if len == 0 && !buffer.is_empty() {
            self.others.check_failed()?;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(&mut buffer[..len])
    }

    fn record_read(&mut self, got: Option<usize>) -> io::Result<Option<usize>> {
        match got {
            Some(len) => self.received += len as u64,
            None => self.others.check_failed()?,
        }
        Ok(got)
    }
}

impl Circuit for GroupReceiverCircuit {
    fn try_send(&mut self, _message: &[u8]) -> io::Result<()> {
        Err(one_way_error("a receiver of a group sends nothing"))
    }

    fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let room = self.readable_part(buffer)?;
        let got = self.stream.try_recv(room)?;
        self.record_read(got)
    }

    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let deadline = Instant::now() + BLOCKING_TIMEOUT;
        loop {
            match self.readable_part(buffer) {
                Ok(room) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    return match self.stream.recv(room, left) {
                        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                            Err(io::ErrorKind::WouldBlock.into())
                        }
                        Err(error) => Err(error),
                        Ok(got) => self.record_read(got),
                    };
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if Instant::now() >= deadline {
                        return Err(error);
                    }
                    self.stream.serve()?;
                    self.others.wait(self.received);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn send_noted(&mut self, message: &[u8], note: &Note) -> io::Result<()> {
        parts::check_plain(note)?;
        self.send(message)
    }

    fn receive_part(&mut self, buffer: &mut [u8]) -> io::Result<Option<Part>> {
        Ok(parts::part_of_stream(self.recv(buffer)?))
    }

    fn reserve(&mut self, _len: usize) -> io::Result<Reserved<'_>> {
        parts::no_reservation()
    }

    fn commit(&mut self, _note: &Note) -> io::Result<()> {
        parts::no_commit()
    }

    fn take_arrival(&mut self) -> io::Result<Option<LentArrival<'_>>> {
        parts::no_arrival()
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn wait(&mut self, _interest: Interest, deadline: Instant) -> io::Result<()> {
        if self.others.min_received() <= self.received {
            self.others.wait(self.received);
            return Ok(());
        }
        let limit = deadline.saturating_duration_since(Instant::now());
        self.stream.wait(limit)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.stream.descriptor()
    }

    fn effective(&self) -> BTreeMap<String, String> {
        let mut effective = BTreeMap::new();
        if let Some(descriptor) = self.stream.descriptor() {
            socket::read_buffer_sizes(descriptor, &mut effective);
        }
        let others = self.others.bytes.iter();
        let others = others.map(|bytes| bytes.load(Ordering::Relaxed));
        let all: Vec<u64> = std::iter::once(self.received).chain(others).collect();
        let slowest = all.iter().enumerate().min_by_key(|(_, bytes)| **bytes);
        effective.insert("receivers".into(), all.len().to_string());
        if let (Some((index, least)), Some(most)) = (slowest, all.iter().max()) {
            let text = format!("receiver {index} with {least} bytes; the fastest has {most}");
            effective.insert("slowest".into(), text);
        }
        effective
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        let counters = self.first_receiver.counters();
        let (answers, damped) = self.first_receiver.control_packet_counts();
        BTreeMap::from([
            ("packets_received".into(), counters.packets_parsed),
            ("packets_discarded".into(), counters.packets_discarded),
            ("bytes_copied".into(), counters.bytes_copied),
            ("answers".into(), answers),
            ("answers_damped".into(), damped),
        ])
    }
}

impl Drop for GroupReceiverCircuit {
    fn drop(&mut self) {
        self.others.stopped.store(true, Ordering::Relaxed);
    }
}

struct GroupSenderCircuit {
    sender: Sender,
}

impl Circuit for GroupSenderCircuit {
    #[inline]
    fn try_send(&mut self, message: &[u8]) -> io::Result<()> {
        self.sender.try_send(message)
    }

    #[inline]
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        match self.sender.send(message, BLOCKING_TIMEOUT) {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                Err(io::ErrorKind::WouldBlock.into())
            }
            other => other,
        }
    }

    fn try_recv(&mut self, _buffer: &mut [u8]) -> io::Result<Option<usize>> {
        Err(one_way_error("the sender to a group receives nothing"))
    }

    fn send_noted(&mut self, message: &[u8], note: &Note) -> io::Result<()> {
        parts::check_plain(note)?;
        self.send(message)
    }

    fn receive_part(&mut self, buffer: &mut [u8]) -> io::Result<Option<Part>> {
        Ok(parts::part_of_stream(self.recv(buffer)?))
    }

    fn reserve(&mut self, _len: usize) -> io::Result<Reserved<'_>> {
        parts::no_reservation()
    }

    fn commit(&mut self, _note: &Note) -> io::Result<()> {
        parts::no_commit()
    }

    fn take_arrival(&mut self) -> io::Result<Option<LentArrival<'_>>> {
        parts::no_arrival()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sender.flush()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.sender.finish()
    }

    fn wait(&mut self, _interest: Interest, deadline: Instant) -> io::Result<()> {
        let limit = deadline.saturating_duration_since(Instant::now());
        self.sender.wait(limit)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.sender.descriptor()
    }

    fn effective(&self) -> BTreeMap<String, String> {
        let mut effective = BTreeMap::new();
        if let Some(descriptor) = self.sender.descriptor() {
            socket::read_buffer_sizes(descriptor, &mut effective);
        }
        effective
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        let counters = self.sender.counters();
        let (sends, receives) = self.sender.wire_calls();
        BTreeMap::from([
            ("retransmissions".into(), counters.retransmissions),
            ("packets_sent".into(), counters.packets_built),
            ("send_calls".into(), sends),
            ("receive_calls".into(), receives),
        ])
    }
}

impl Drop for GroupSenderCircuit {
    fn drop(&mut self) {
        // The helper thread ends with the circuit, so unacknowledged data would be lost.
        let _ = self.sender.close(CLOSE_TIMEOUT);
    }
}

fn one_way_error(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, text)
}
