//! pipe: two pipes, one for each direction, one write a message.
//!
//! The listener makes the pipes and passes their far ends in the rendezvous. A reader sees the end
//! when every copy of the writing end is closed, so drop the rendezvous once all are connected.

use crate::contract::{
    Circuit, Class, Interest, Listener, PATIENCE, Reach, Rendezvous, Transport, Unavailable,
};
use crate::options::Options;
use crate::socket;
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
            reliable: true,
            ordered: true,
            encrypted: false,
            stream: true,
            kernel: true,
            connectionless: false,
            connects: false,
            flow_control: true,
            reach: Reach::Process,
            checksum: "none: memory",
            congestion: "",
            offload: "none",
        }
    }

    fn available(&self, _options: &Options) -> Result<(), Unavailable> {
        Ok(())
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        let mut listening = PipeListening {
            near: VecDeque::new(),
            far: Vec::new(),
            options: options.clone(),
        };
        for _ in 0..options.circuits.max(1) {
            let (far_reads, near_writes) = new_pipe(options)?;
            let (near_reads, far_writes) = new_pipe(options)?;
            listening.near.push_back((near_reads, near_writes));
            listening.far.push((far_reads, far_writes));
        }
        Ok(Box::new(listening))
    }

    fn connect(
        &self,
        rendezvous: &Rendezvous,
        index: usize,
        options: &Options,
    ) -> io::Result<Box<dyn Circuit>> {
        let ends = rendezvous.descriptors.chunks_exact(2).nth(index);
        let [reads, writes] = ends.unwrap_or_default() else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("the listener passed no pipes for circuit {index}"),
            ));
        };
        let ends = (reads.try_clone()?, writes.try_clone()?);
        Ok(Box::new(PipeEnd::new(ends, options)))
    }
}

/// How often a blocking receive asks before reading, after reading at once found nothing. A reader
/// that always waits so saves most of the vain reads, one that need not finds out soon.
const ASK_FIRST: u32 = 16;

/// A pipe's reading and writing end.
type Ends = (OwnedFd, OwnedFd);

fn new_pipe(options: &Options) -> io::Result<Ends> {
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

struct PipeListening {
    near: VecDeque<Ends>,
    far: Vec<Ends>,
    options: Options,
}

impl Listener for PipeListening {
    fn rendezvous(&self) -> io::Result<Rendezvous> {
        let mut descriptors = Vec::new();
        for (reads, writes) in &self.far {
            descriptors.push(reads.try_clone()?);
            descriptors.push(writes.try_clone()?);
        }
        Ok(Rendezvous {
            reach: Reach::Process,
            bytes: Vec::new(),
            descriptors,
        })
    }

    fn accept(&mut self, _deadline: Instant) -> io::Result<Box<dyn Circuit>> {
        let ends = self.near.pop_front().ok_or_else(|| {
            let text = "every pipe is taken; pipes are made when the listener is";
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })?;
        if self.near.is_empty() {
            // The far ends have left with the rendezvous; a copy here would hide their closing.
            self.far.clear();
        }
        Ok(Box::new(PipeEnd::new(ends, &self.options)))
    }
}

#[derive(Debug)]
struct PipeEnd {
    reads: OwnedFd,
    /// None once this direction was finished.
    writes: Option<OwnedFd>,
    rest: Vec<u8>,
    rest_sent: usize,
    read_len: usize,
    /// Blocking receives to come that ask before they read, because reading at once found nothing.
    ask_first: u32,
    send_calls: u64,
    receive_calls: u64,
}

impl PipeEnd {
    fn new((reads, writes): Ends, options: &Options) -> PipeEnd {
        PipeEnd {
            reads,
            writes: Some(writes),
            rest: Vec::new(),
            rest_sent: 0,
            read_len: options.read_len,
            ask_first: 0,
            send_calls: 0,
            receive_calls: 0,
        }
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send_calls += 1;
        let Some(writes) = &self.writes else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        rustix::io::write(writes, bytes).map_err(socket::error_of)
    }

    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.receive_calls += 1;
        let len = buffer.len().min(self.read_len);
        match rustix::io::read(&self.reads, &mut buffer[..len]) {
            Ok(got) => Ok((got > 0 || len == 0).then_some(got)),
            Err(Errno::AGAIN) => Err(io::ErrorKind::WouldBlock.into()),
            Err(errno) => Err(socket::error_of(errno)),
        }
    }

    /// Writes what is left of the message before.
    fn push(&mut self) -> io::Result<()> {
        while self.rest_sent < self.rest.len() {
            let rest = std::mem::take(&mut self.rest);
            let sent = self.write(&rest[self.rest_sent..]);
            self.rest = rest;
            self.rest_sent += sent?;
        }
        self.rest.clear();
        self.rest_sent = 0;
        Ok(())
    }

    /// As push, waiting for room up to [`PATIENCE`].
    fn push_waiting(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.push() {
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
    fn keep(&mut self, rest: &[u8]) {
        self.rest.extend_from_slice(rest);
    }

    #[cold]
    fn send_waiting(&mut self, message: &[u8]) -> io::Result<()> {
        self.wait(Interest::Write, Instant::now() + PATIENCE)?;
        self.try_send(message)
    }

    #[cold]
    fn recv_asking(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.wait(Interest::Read, Instant::now() + PATIENCE)?;
        self.read(buffer)
    }
}

impl Circuit for PipeEnd {
    #[inline]
    fn try_send(&mut self, message: &[u8]) -> io::Result<()> {
        if !self.rest.is_empty() {
            self.push()?;
        }
        let sent = self.write(message)?;
        if sent < message.len() {
            self.keep(&message[sent..]);
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
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.send_waiting(message),
            other => other,
        }
    }

    #[inline]
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if self.ask_first > 0 {
            self.ask_first -= 1;
            return self.recv_asking(buffer);
        }
        match self.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.ask_first = ASK_FIRST;
                self.recv_asking(buffer)
            }
            other => other,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.push_waiting()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.push_waiting()?;
        // There is no half-close: closing the writing end is the end.
        self.writes = None;
        Ok(())
    }

    fn wait(&mut self, interest: Interest, deadline: Instant) -> io::Result<()> {
        let descriptor = match (interest, &self.writes) {
            (Interest::Write, Some(writes)) => writes.as_fd(),
            (Interest::Write, None) => return Ok(()),
            (Interest::Read, _) => self.reads.as_fd(),
        };
        socket::wait(descriptor, interest, deadline)
    }

    /// The reading end; room to write shows on another descriptor, for which there is `wait`.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.reads.as_fd())
    }

    fn effective(&self) -> BTreeMap<String, String> {
        let mut effective = BTreeMap::new();
        if let Ok(len) = fcntl_getpipe_size(&self.reads) {
            effective.insert("receive_buffer".into(), len.to_string());
        }
        if let Some(Ok(len)) = self.writes.as_ref().map(fcntl_getpipe_size) {
            effective.insert("send_buffer".into(), len.to_string());
        }
        effective.insert("read_len".into(), self.read_len.to_string());
        effective
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        BTreeMap::from([
            ("send_calls".into(), self.send_calls),
            ("receive_calls".into(), self.receive_calls),
        ])
    }
}
