//! pipe: two pipes, one for each direction, one write per message.
//!
//! The listener creates the pipes and passes the connecting side's ends in the rendezvous. A reader
//! sees the end only when every copy of the write end is closed, so drop the rendezvous once all
//! circuits are connected.

use crate::connection_info;
use crate::contract::{
    BLOCKING_TIMEOUT, Circuit, CircuitResult, Class, ConnectionInfo, Interest, Listener,
    NoConnectionInfo, Reach, Rendezvous, Transport, Unavailable,
};
use crate::options::Options;
use crate::parts;
use crate::socket;
use crate::transport::unix_stream;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

/// The transport.
#[derive(Debug)]
pub struct Pipe;

impl Transport for Pipe {
    fn name(&self) -> &'static str {
        "pipe"
    }

    fn summary(&self) -> &'static str {
        "two pipes, one write a message"
    }

    fn class(&self) -> Class {
        Class {
            connects: false,
            reach: Reach::Process,
            ..unix_stream::CLASS
        }
    }

    fn available(&self, _options: &Options) -> Result<(), Unavailable> {
        Ok(())
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        let mut listening = PipeListener {
            accept_fds: VecDeque::new(),
            connect_fds: Vec::new(),
            options: options.clone(),
        };
        for _ in 0..options.circuits.max(1) {
            let (connect_read, accept_write) = new_pipe(options)?;
            let (accept_read, connect_write) = new_pipe(options)?;
            listening.accept_fds.push_back((accept_read, accept_write));
            listening.connect_fds.push((connect_read, connect_write));
        }
        Ok(Box::new(listening))
    }

    fn connect(&self, rendezvous: &Rendezvous, index: usize, options: &Options) -> CircuitResult {
        let ends = rendezvous.descriptors.chunks_exact(2).nth(index);
        let [reads, writes] = ends.unwrap_or_default() else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("the listener passed no pipes for circuit {index}"),
            ));
        };
        let ends = (reads.try_clone()?, writes.try_clone()?);
        Ok(Box::new(PipeCircuit::new(ends, options)))
    }

    crate::usual_transport! {
        class_with is_one_to_many only_answers is_one_way sends_unanswered carries_empty option_to_many message_max options check_options connect_all connect_to_many
    }
}

/// Blocking receives that poll before they read, after a read returned EAGAIN. A reader that always
/// waits saves most of the failing reads; one that rarely waits soon reads directly again.
const POLL_FIRST_CALLS: u32 = 16;

/// One side's read end and write end.
type PipeFds = (OwnedFd, OwnedFd);

fn new_pipe(options: &Options) -> io::Result<PipeFds> {
    let (reads, writes) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    if let Some(len) = options.buffers {
        fcntl_setpipe_size(&writes, len).map_err(|error| {
            let text = format!(
                "a pipe of {len} bytes: {error}; the limit is in /proc/sys/fs/pipe-max-size"
            );
            io::Error::new(io::Error::from(error).kind(), text)
        })?;
    }
    Ok((reads, writes))
}

struct PipeListener {
    accept_fds: VecDeque<PipeFds>,
    connect_fds: Vec<PipeFds>,
    options: Options,
}

impl Listener for PipeListener {
    fn rendezvous(&self) -> io::Result<Rendezvous> {
        let mut descriptors = Vec::new();
        for (reads, writes) in &self.connect_fds {
            descriptors.push(reads.try_clone()?);
            descriptors.push(writes.try_clone()?);
        }
        Ok(Rendezvous {
            reach: Reach::Process,
            bytes: Vec::new(),
            descriptors,
        })
    }

    fn accept(&mut self, _deadline: Instant) -> CircuitResult {
        let ends = self.accept_fds.pop_front().ok_or_else(|| {
            let text = "all pipes are in use; the listener creates them all when it starts";
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })?;
        if self.accept_fds.is_empty() {
            // The peer has its ends from the rendezvous; a copy kept here would hide their closing.
            self.connect_fds.clear();
        }
        Ok(Box::new(PipeCircuit::new(ends, &self.options)))
    }
}

#[derive(Debug)]
struct PipeCircuit {
    read_fd: OwnedFd,
    /// None once this direction is finished.
    write_fd: Option<OwnedFd>,
    unsent: Vec<u8>,
    unsent_offset: usize,
    read_len: usize,
    /// Blocking receives left that poll before they read.
    poll_first: u32,
    send_calls: u64,
    receive_calls: u64,
}

impl PipeCircuit {
    fn new((reads, writes): PipeFds, options: &Options) -> PipeCircuit {
        PipeCircuit {
            read_fd: reads,
            write_fd: Some(writes),
            unsent: Vec::new(),
            unsent_offset: 0,
            read_len: options.read_len,
            poll_first: 0,
            send_calls: 0,
            receive_calls: 0,
        }
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send_calls += 1;
        let Some(writes) = &self.write_fd else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        rustix::io::write(writes, bytes).map_err(socket::to_io_error)
    }

    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.receive_calls += 1;
        let len = buffer.len().min(self.read_len);
        match rustix::io::read(&self.read_fd, &mut buffer[..len]) {
            Ok(got) => Ok((got > 0 || len == 0).then_some(got)),
            Err(Errno::AGAIN) => Err(io::ErrorKind::WouldBlock.into()),
            Err(errno) => Err(socket::to_io_error(errno)),
        }
    }

    /// Writes the unsent tail of the previous message.
    fn flush_unsent(&mut self) -> io::Result<()> {
        while self.unsent_offset < self.unsent.len() {
            let rest = std::mem::take(&mut self.unsent);
            let sent = self.write(&rest[self.unsent_offset..]);
            self.unsent = rest;
            self.unsent_offset += sent?;
        }
        self.unsent.clear();
        self.unsent_offset = 0;
        Ok(())
    }

    /// Like `flush_unsent`, but waits for space up to [`BLOCKING_TIMEOUT`].
    fn flush_unsent_blocking(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + BLOCKING_TIMEOUT;
        loop {
            match self.flush_unsent() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if Instant::now() >= deadline {
                        return Err(error);
                    }
                    self.wait(Interest::Write, deadline)?;
                }
                other => return other,
            }
        }
    }

    #[cold]
    fn queue_unsent(&mut self, rest: &[u8]) {
        self.unsent.extend_from_slice(rest);
    }

    #[cold]
    fn send_blocking(&mut self, message: &[u8]) -> io::Result<()> {
        self.wait(Interest::Write, Instant::now() + BLOCKING_TIMEOUT)?;
        self.try_send(message)
    }

    #[cold]
    fn recv_polled(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.wait(Interest::Read, Instant::now() + BLOCKING_TIMEOUT)?;
        self.read(buffer)
    }
}

impl Circuit for PipeCircuit {
    #[inline]
    fn try_send(&mut self, message: &[u8]) -> io::Result<()> {
        if !self.unsent.is_empty() {
            self.flush_unsent()?;
        }
        let sent = self.write(message)?;
        if sent < message.len() {
            self.queue_unsent(&message[sent..]);
        }
        Ok(())
    }

    #[inline]
    fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.read(buffer)
    }

    #[inline]
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        match self.try_send(message) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.send_blocking(message),
            other => other,
        }
    }

    #[inline]
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if self.poll_first > 0 {
            self.poll_first -= 1;
            return self.recv_polled(buffer);
        }
        match self.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.poll_first = POLL_FIRST_CALLS;
                self.recv_polled(buffer)
            }
            other => other,
        }
    }

    parts::copies_stream! {}

    fn flush(&mut self) -> io::Result<()> {
        self.flush_unsent_blocking()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.flush_unsent_blocking()?;
        // A pipe has no half-close: the end of this direction is the close of its write end.
        self.write_fd = None;
        Ok(())
    }

    fn wait(&mut self, interest: Interest, deadline: Instant) -> io::Result<()> {
        let descriptor = match (interest, &self.write_fd) {
            (Interest::Write, Some(writes)) => writes.as_fd(),
            (Interest::Write, None) => return Ok(()),
            (Interest::Read, _) => self.read_fd.as_fd(),
        };
        socket::wait(descriptor, interest, deadline)
    }

    /// The read end. Space to write shows on the write end: use `wait`.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.read_fd.as_fd())
    }

    fn connection_info(&self) -> Result<ConnectionInfo, NoConnectionInfo> {
        Err(connection_info::NO_PATH)
    }

    fn effective(&self) -> BTreeMap<String, String> {
        let mut effective = BTreeMap::new();
        if let Ok(len) = fcntl_getpipe_size(&self.read_fd) {
            effective.insert("receive_buffer".into(), len.to_string());
        }
        if let Some(Ok(len)) = self.write_fd.as_ref().map(fcntl_getpipe_size) {
            effective.insert("send_buffer".into(), len.to_string());
        }
        effective.insert("read_len".into(), self.read_len.to_string());
        effective
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        parts::call_counts((self.send_calls, self.receive_calls))
    }

    crate::usual_circuit! { send_run send_shared_run recv_run next_deadline }
}
