//! How to add a transport: a small complete one, and a trial run of it.
//!
//! `socketpair` connects two ends by a pair of unnamed Unix sockets that keep message boundaries.
//! The listener creates the pair and passes the connecting side's socket in the rendezvous. To add
//! it to races, move the file to `src/transport/` and add the struct to `registry::all`; the
//! conformance test then covers it.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::time::Instant;
use towpath::contract::BLOCKING_TIMEOUT;
use towpath::parts::{self, MessageRest};
use towpath::{
    Circuit, CircuitResult, Class, ConnectionInfo, Interest, LentArrival, Listener,
    NoConnectionInfo, Note, Options, Part, Reach, Rendezvous, Reserved, Transport, Unavailable,
};

/// The transport: its name, its class, how two ends connect.
struct SocketPair;

impl Transport for SocketPair {
    fn name(&self) -> &'static str {
        "socketpair"
    }

    fn summary(&self) -> &'static str {
        "a pair of unnamed local datagram sockets, one send a message"
    }

    // Be exact: result tables show the class beside the results.
    fn class(&self) -> Class {
        Class {
            reliable: true,
            ordered: true,
            duplicates: false,
            encrypted: false,
            stream: false,
            kernel: true,
            connectionless: false,
            // The pairs are created with the listener, so set-up cannot be repeated.
            connects: false,
            flow_control: true,
            half_close: false,
            calls: false,
            reach: Reach::Process,
            checksum: "none: memory",
            congestion: "",
            offload: "none",
        }
    }

    // If a kernel feature or a privilege may be missing, probe for it here and name the remedy.
    fn available(&self, _options: &Options) -> Result<(), Unavailable> {
        Ok(())
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        let pairs: io::Result<Vec<_>> = (0..options.circuits)
            .map(|_| UnixDatagram::pair())
            .collect();
        let (near, far) = pairs?.into_iter().unzip();
        Ok(Box::new(Pairs { near, far }))
    }

    fn connect(&self, rendezvous: &Rendezvous, index: usize, _options: &Options) -> CircuitResult {
        let far = rendezvous.descriptors.get(index);
        let far = far.ok_or(io::ErrorKind::NotFound)?.try_clone()?;
        Ok(Box::new(End::new(far.into())?))
    }

    towpath::usual_transport! {
        class_with is_one_to_many only_answers is_one_way sends_unanswered carries_empty option_to_many message_max options check_options connect_all connect_to_many
    }
}

/// The accepting side.
struct Pairs {
    near: Vec<UnixDatagram>,
    far: Vec<UnixDatagram>,
}

impl Listener for Pairs {
    fn rendezvous(&self) -> io::Result<Rendezvous> {
        let far: io::Result<Vec<OwnedFd>> = self
            .far
            .iter()
            .map(|socket| socket.as_fd().try_clone_to_owned())
            .collect();
        Ok(Rendezvous {
            reach: Reach::Process,
            bytes: Vec::new(),
            descriptors: far?,
        })
    }

    fn accept(&mut self, _deadline: Instant) -> CircuitResult {
        if self.near.is_empty() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(Box::new(End::new(self.near.remove(0))?))
    }
}

/// One end. Keep the calls thin: they are measured.
struct End {
    socket: UnixDatagram,
    rest: MessageRest,
}

/// The longest message the system takes by default: its usual send buffer, 208 KiB.
const MESSAGE_MAX: usize = 208 << 10;

impl End {
    fn new(socket: UnixDatagram) -> io::Result<End> {
        // Blocking calls time out, so that the caller's loop can check whether to stop.
        socket.set_read_timeout(Some(BLOCKING_TIMEOUT))?;
        socket.set_write_timeout(Some(BLOCKING_TIMEOUT))?;
        Ok(End {
            socket,
            rest: MessageRest::default(),
        })
    }

    fn read(&mut self, buffer: &mut [u8], block: bool) -> io::Result<Option<usize>> {
        if !self.rest.is_empty() {
            return Ok(Some(self.rest.take(buffer)));
        }
        self.blocking(block)?;
        self.socket.recv(buffer).map(Some)
    }

    fn blocking(&self, block: bool) -> io::Result<()> {
        self.socket.set_nonblocking(!block)
    }
}

impl Circuit for End {
    fn try_send(&mut self, message: &[u8]) -> io::Result<()> {
        self.blocking(false)?;
        self.socket.send(message).map(drop)
    }

    fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.read(buffer, false)
    }

    // `send`, `recv` and the runs can be had of the two above and `wait`, as `usual_circuit!` below. A transport whose
    // system calls can block has its own, as here.
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.read(buffer, true)
    }

    // Nothing travels with a message here.
    fn send_noted(&mut self, message: &[u8], note: &Note) -> io::Result<()> {
        parts::check_plain(note)?;
        self.send(message)
    }

    // What exceeds the buffer is kept for the next receive, here and in `read`.
    fn receive_part(&mut self, buffer: &mut [u8]) -> io::Result<Option<Part>> {
        self.blocking(true)?;
        if self.rest.is_empty() {
            let len = self.socket.recv(self.rest.room(MESSAGE_MAX))?;
            self.rest.keep(len, 0);
        }
        Ok(Some(self.rest.next(buffer)))
    }

    // The kernel copies what is sent and received: there is no memory to write into or to lend.
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
        self.socket.shutdown(std::net::Shutdown::Write)
    }

    fn wait(&mut self, interest: Interest, deadline: Instant) -> io::Result<()> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let flags = match interest {
            Interest::Read => PollFlags::IN,
            Interest::Write => PollFlags::OUT,
        };
        let left = deadline.saturating_duration_since(Instant::now());
        let limit = Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: left.subsec_nanos().into(),
        };
        poll(&mut [PollFd::new(&self.socket, flags)], Some(&limit))?;
        Ok(())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    // No connection, no state of one.
    fn connection_info(&self) -> Result<ConnectionInfo, NoConnectionInfo> {
        Err("has no connection")
    }

    // Read back the options in effect; do not repeat the requested ones.
    fn effective(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    towpath::usual_circuit! { send send_run send_shared_run recv_run flush next_deadline counts }
}

fn main() -> io::Result<()> {
    let transport: &dyn Transport = &SocketPair;
    let options = Options::default();
    let mut listener = transport.listen(&options)?;
    let rendezvous = listener.rendezvous()?;
    let mut client = transport.connect(&rendezvous, 0, &options)?;
    let mut server = listener.accept(Instant::now())?;
    let taken = client.send_run(b"hello", 3)?;
    let mut buffer = [0; 64];
    let arrived = server.recv_run(&mut buffer, taken)?.unwrap_or_default();
    assert_eq!((arrived.messages, arrived.bytes), (3, 15));
    client.send(b"in parts")?;
    let part = server.receive_part(&mut buffer[..3])?;
    assert_eq!(part.map(|part| (part.len, part.end)), Some((3, false)));
    assert_eq!(server.recv(&mut buffer)?, Some(5));
    println!(
        "{}: {} messages arrived",
        transport.name(),
        arrived.messages
    );
    Ok(())
}
