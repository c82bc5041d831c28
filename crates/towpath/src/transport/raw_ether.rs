//! raw-ether: Ethernet frames over packet sockets (AF_PACKET), one frame per message, and per call unless `frames` says
//! otherwise.
//!
//! The user names the interface and the EtherType. `wire_ether` describes the header; the only
//! checksum is the frame's.

use crate::contract::{
    Circuit, CircuitResult, Class, Listener, OptionHelp, Part, ReceiveCounts, Rendezvous,
    Transport, Unavailable,
};
use crate::medium::{EtherMedium, random_port};
use crate::options::{Options, invalid};
use crate::parts::{self, MessageRest};
use crate::raw_sockets::GrantedSocket;
use crate::runs::{receive_calls, send_run};
use crate::socket;
use crate::transport::datagrams;
use rustix::io::Errno;
use socket2::SockRef;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::time::Instant;
use wire_ether::{EtherAddress, EtherSocket, FrameHeader, HEADER_LEN, Interface};
use wire_udp::sys::{MmsgReceiver, MmsgSender};

/// The most the kernel takes in one call (UIO_MAXIOV).
const FRAMES_MAX: usize = 1024;

const OPTIONS: [OptionHelp; 1] = [OptionHelp {
    name: "frames",
    values: "COUNT",
    meaning: "frames of a sendmmsg and a recvmmsg, up to 1024; 1 if not given, by sendmsg and recvmsg",
}];

/// Frames a call.
fn parse_frames(own: &BTreeMap<String, String>) -> Result<usize, String> {
    if let Some(key) = own.keys().find(|key| key.as_str() != OPTIONS[0].name) {
        return Err(format!("raw-ether has no option '{key}'; it has frames"));
    }
    let Some(text) = own.get("frames") else {
        return Ok(1);
    };
    let count = text.parse().ok();
    count
        .filter(|count| (1..=FRAMES_MAX).contains(count))
        .ok_or_else(|| format!("frames of '{text}' are out of range, from 1 to {FRAMES_MAX}"))
}

/// The transport.
#[derive(Debug)]
pub struct RawEther;

impl Transport for RawEther {
    fn name(&self) -> &'static str {
        "raw-ether"
    }

    fn summary(&self) -> &'static str {
        "Ethernet frames over packet sockets on a named interface, one frame a message"
    }

    fn options(&self) -> &'static [OptionHelp] {
        &OPTIONS
    }

    fn check_options(&self, own: &BTreeMap<String, String>) -> Result<(), String> {
        parse_frames(own).map(drop)
    }

    fn class(&self) -> Class {
        Class {
            ordered: true,
            checksum: "the frame's, 32 bit, where there is a wire",
            ..datagrams::UDP_CLASS
        }
    }

    fn class_with(&self, own: &BTreeMap<String, String>) -> Class {
        let class = self.class();
        match parse_frames(own) {
            Ok(2..) => Class {
                offload: "sendmmsg and recvmmsg",
                ..class
            },
            Ok(_) | Err(_) => class,
        }
    }

    fn available(&self, options: &Options) -> Result<(), Unavailable> {
        let name = options.interface.as_deref().ok_or_else(|| Unavailable {
            reason: "no network interface is named".into(),
            remedy: "name one with --interface, for example lo".into(),
        })?;
        let interface = Interface::find(name).map_err(|error| Unavailable {
            reason: error.to_string(),
            remedy: "name another with --interface".into(),
        })?;
        let probe = EtherSocket::open(interface, options.ethertype, random_port());
        probe.map(drop).map_err(|error| Unavailable {
            reason: format!("no packet socket on {name}: {error}"),
            remedy: "run as root, or give the program the capability cap_net_raw".into(),
        })
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        let frames = parse_frames(&options.transport_specific).map_err(invalid)?;
        let sockets = (0..options.circuits.max(1))
            .map(|_| open(options))
            .collect::<io::Result<_>>()?;
        Ok(Box::new(RawEtherListener {
            sockets,
            accepted: 0,
            frames,
        }))
    }

    fn connect(&self, rendezvous: &Rendezvous, index: usize, options: &Options) -> CircuitResult {
        let line = socket::rendezvous_entry(&rendezvous.bytes, index)?;
        let text = std::str::from_utf8(line).ok();
        let peer: EtherAddress = text.and_then(|text| text.parse().ok()).ok_or_else(|| {
            let text = "the rendezvous is no Ethernet address";
            io::Error::new(io::ErrorKind::InvalidData, text)
        })?;
        let frames = parse_frames(&options.transport_specific).map_err(invalid)?;
        let socket = open(options)?;
        let header = Some(socket.header(peer));
        Ok(Box::new(RawEtherCircuit::new(socket, header, frames)))
    }

    crate::usual_transport! {
        is_one_to_many only_answers is_one_way sends_unanswered carries_empty option_to_many message_max connect_all connect_to_many
    }
}

fn open(options: &Options) -> io::Result<EtherSocket> {
    let interface = EtherMedium::interface(options)?;
    let socket = match &options.raw_sockets {
        Some(granted) => {
            let GrantedSocket { socket, port } = granted.take()?;
            EtherSocket::over(socket, interface, options.ethertype, port)
        }
        None => EtherSocket::open(interface, options.ethertype, random_port())?,
    };
    let timeouts = SockRef::from(&socket);
    timeouts.set_read_timeout(Some(crate::contract::BLOCKING_TIMEOUT))?;
    timeouts.set_write_timeout(Some(crate::contract::BLOCKING_TIMEOUT))?;
    if let Some(len) = options.buffers {
        wire_udp::sys::set_buffers(socket.as_fd(), len);
    }
    Ok(socket)
}

struct RawEtherListener {
    sockets: Vec<EtherSocket>,
    accepted: usize,
    frames: usize,
}

impl Listener for RawEtherListener {
    fn rendezvous(&self) -> io::Result<Rendezvous> {
        let addresses = self.sockets.iter().map(|socket| socket.address());
        Ok(socket::rendezvous_of(addresses))
    }

    fn accept(&mut self, _deadline: Instant) -> CircuitResult {
        let socket = self.sockets[self.accepted % self.sockets.len()].try_clone()?;
        self.accepted += 1;
        Ok(Box::new(RawEtherCircuit::new(socket, None, self.frames)))
    }
}

/// Frames that a call sends or receives together.
struct FrameRuns {
    sender: MmsgSender,
    /// Made by the first run that is received.
    receiver: Option<MmsgReceiver>,
    /// The frame that a run repeats.
    frame: Vec<u8>,
}

struct RawEtherCircuit {
    socket: EtherSocket,
    /// The header of frames to the peer, once it is known.
    header: Option<FrameHeader>,
    /// None if each frame has a call of its own.
    runs: Option<FrameRuns>,
    send_calls: u64,
    receive_calls: u64,
    no_buffers: u64,
    frames_discarded: u64,
    /// What is left of a message received in parts.
    rest: MessageRest,
}

impl RawEtherCircuit {
    fn new(socket: EtherSocket, header: Option<FrameHeader>, frames: usize) -> RawEtherCircuit {
        let runs = (frames > 1).then(|| FrameRuns {
            sender: MmsgSender::new(frames),
            receiver: None,
            frame: Vec::new(),
        });
        RawEtherCircuit {
            socket,
            header,
            runs,
            send_calls: 0,
            receive_calls: 0,
            no_buffers: 0,
            frames_discarded: 0,
            rest: MessageRest::default(),
        }
    }

    #[inline]
    fn write(&mut self, message: &[u8], block: bool) -> io::Result<()> {
        self.send_calls += 1;
        let Some(header) = self.header.as_mut() else {
            return Err(self.send_error(Errno::DESTADDRREQ, message.len()));
        };
        match self.socket.send(header, message, block) {
            Ok(()) => Ok(()),
            Err(errno) => Err(self.send_error(errno, message.len())),
        }
    }

    /// Sends `message` up to `count` times by one call; returns how often.
    fn write_many(&mut self, message: &[u8], count: usize) -> io::Result<usize> {
        let (Some(runs), Some(header)) = (&mut self.runs, &mut self.header) else {
            return self.write(message, true).map(|()| 1);
        };
        if message.len() > self.socket.interface().payload_max() {
            return Err(self.send_error(Errno::MSGSIZE, message.len()));
        }
        header.len = message.len() as u16;
        runs.frame.clear();
        runs.frame.extend_from_slice(&header.emit());
        runs.frame.extend_from_slice(message);
        self.send_calls += 1;
        let sent = runs.sender.send(self.socket.as_fd(), &runs.frame, count, 0);
        sent.map_err(|error| match Errno::from_io_error(&error) {
            Some(errno) => self.send_error(errno, message.len()),
            None => error,
        })
    }

    /// Receives as many frames as wait, and one at least, by one call.
    fn read_many(&mut self, buffer: &mut [u8]) -> io::Result<ReceiveCounts> {
        let mut arrived = ReceiveCounts::default();
        let runs = match &mut self.runs {
            Some(runs) if self.header.is_some() && self.rest.is_empty() => runs,
            _ => {
                arrived.add(self.read(buffer, true)?.unwrap_or(0));
                return Ok(arrived);
            }
        };
        let count = runs.sender.capacity();
        let frame_len = HEADER_LEN + self.socket.interface().payload_max();
        let make = || MmsgReceiver::new(frame_len, count);
        let receiver = runs.receiver.get_or_insert_with(make);
        self.receive_calls += 1;
        arrived.calls = 1;
        for index in 0..receiver.receive(self.socket.as_fd(), count, 0)? {
            let frame = receiver.datagram(index);
            let front = frame.first_chunk::<HEADER_LEN>();
            match front.and_then(|front| FrameHeader::parse(front, frame.len() - HEADER_LEN)) {
                Some(header) => {
                    arrived.messages += 1;
                    arrived.bytes += u64::from(header.len);
                }
                None => self.frames_discarded += 1,
            }
        }
        Ok(arrived)
    }

    #[cold]
    fn send_error(&mut self, errno: Errno, len: usize) -> io::Error {
        let limit = self.socket.interface().payload_max();
        match errno {
            Errno::NOBUFS => {
                self.no_buffers += 1;
                io::ErrorKind::WouldBlock.into()
            }
            Errno::MSGSIZE => io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "a message of {len} bytes is larger than {limit} bytes, the largest frame of \
                     this interface; send smaller messages or raise the interface's MTU"
                ),
            ),
            Errno::DESTADDRREQ => io::Error::new(
                io::ErrorKind::NotConnected,
                "the peer's address is unknown until its first message arrives; let it send first",
            ),
            other => socket::to_io_error(other),
        }
    }

    #[inline]
    fn read(&mut self, buffer: &mut [u8], block: bool) -> io::Result<Option<usize>> {
        if !self.rest.is_empty() {
            return Ok(Some(self.rest.take(buffer)));
        }
        self.receive_calls += 1;
        let frame = self
            .socket
            .recv(buffer, block)
            .map_err(socket::to_io_error)?;
        let Some(frame) = frame else {
            self.frames_discarded += 1;
            return Err(io::ErrorKind::WouldBlock.into());
        };
        if self.header.is_none() {
            self.header = Some(self.socket.header(frame.from));
        }
        Ok(Some(usize::from(frame.len).min(buffer.len())))
    }
}

impl Circuit for RawEtherCircuit {
    parts::blocks_by_flag! { write, read }

    fn send_run(&mut self, message: &[u8], count: usize) -> io::Result<usize> {
        send_run(count, |left| self.write_many(message, left))
    }

    /// With several frames a call messages are received into the circuit's own buffers; `buffer` is not written.
    fn recv_run(&mut self, buffer: &mut [u8], calls: usize) -> io::Result<Option<ReceiveCounts>> {
        receive_calls(calls, || self.read_many(buffer)).map(Some)
    }

    parts::carries_no_notes! {}

    fn receive_part(&mut self, buffer: &mut [u8]) -> io::Result<Option<Part>> {
        if self.rest.is_empty() {
            let mut rest = std::mem::take(&mut self.rest);
            let got = self.read(rest.room(self.socket.interface().payload_max()), true);
            if let Ok(Some(len)) = got {
                rest.keep(len, 0);
            }
            self.rest = rest;
            got?;
        }
        Ok(Some(self.rest.next(buffer)))
    }

    parts::lends_nothing! {}

    parts::ready_as_socket! {}

    parts::connectionless! {}

    fn effective(&self) -> BTreeMap<String, String> {
        let mut effective = socket::buffer_sizes(self.socket.as_fd());
        let limit = self.socket.interface().payload_max();
        effective.insert("message_max".into(), limit.to_string());
        let frames = self.runs.as_ref().map_or(1, |runs| runs.sender.capacity());
        effective.insert("frames".into(), frames.to_string());
        effective
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        let mut counts = parts::call_counts((self.send_calls, self.receive_calls));
        counts.insert("no_buffers".into(), self.no_buffers);
        counts.insert("packets_discarded".into(), self.frames_discarded);
        let drops = wire_udp::sys::receive_drops(self.socket.as_fd());
        parts::add_receive_drops(drops.ok(), &mut counts);
        counts
    }

    crate::usual_circuit! { send_shared_run flush next_deadline }
}
