//! udp-segmented: the kernel's UDP, many messages sent as one buffer that the kernel segments
//! (UDP_SEGMENT), and received as one buffer if they were coalesced (UDP_GRO).
//!
//! Unlike in `udp-batched`, the messages pass through the network stack together. Single sends are
//! one datagram per call.

use crate::contract::{
    Circuit, CircuitResult, Class, Interest, Listener, Note, OptionHelp, Part, ReceiveCounts,
    Rendezvous, Transport, Unavailable, check_names,
};
use crate::datagram::{
    AddressFamily, DatagramListener, DatagramSocket, SocketKind, configure_nothing,
};
use crate::options::{self, Options};
use crate::parts;
use crate::runs::{receive_calls, send_run};
use crate::transport::datagrams::UDP_CLASS;
use crate::udp_offloads::{self, UdpOffloads};
use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;
use wire_udp::{UDP_PAYLOAD_MAX, sys};

/// The transport.
#[derive(Debug)]
pub struct UdpSegmented;

const KIND: SocketKind = SocketKind {
    family: AddressFamily::Internet(Protocol::UDP),
    connected: true,
    configure: enable_coalescing,
};

/// The kind of sockets for `options`, which may be without UDP_GRO.
fn kind(options: &Options) -> io::Result<SocketKind> {
    let wanted = UdpOffloads::parse(&options.transport_specific).map_err(options::invalid)?;
    Ok(match wanted.gro {
        true => KIND,
        false => SocketKind {
            configure: configure_nothing,
            ..KIND
        },
    })
}

/// Most datagrams in one segmented send (UDP_MAX_SEGMENTS; 128 since Linux 6.9).
const SEGMENTS_MAX: usize = 64;

/// Octets of the largest coalesced receive.
const COALESCED_LEN_MAX: usize = 65_536;

fn enable_coalescing(socket: &Socket) -> io::Result<()> {
    sys::set_coalescing(socket.as_fd(), true)
}

impl Transport for UdpSegmented {
    fn name(&self) -> &'static str {
        "udp-segmented"
    }

    fn summary(&self) -> &'static str {
        "kernel UDP, up to 64 messages a call segmented by the kernel (UDP_SEGMENT, UDP_GRO)"
    }

    fn class(&self) -> Class {
        Class {
            offload: "segmentation and coalescing by the kernel",
            ..UDP_CLASS
        }
    }

    fn class_with(&self, own: &BTreeMap<String, String>) -> Class {
        Class {
            offload: UdpOffloads::in_words(own),
            ..self.class()
        }
    }

    fn options(&self) -> &[OptionHelp] {
        &udp_offloads::OPTIONS
    }

    fn check_options(&self, own: &BTreeMap<String, String>) -> Result<(), String> {
        check_names(self.name(), self.options(), own)?;
        UdpOffloads::parse(own).map(drop)
    }

    fn available(&self, _options: &Options) -> Result<(), Unavailable> {
        let probe = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP));
        let known = probe.is_ok_and(|socket| {
            enable_coalescing(&socket).is_ok() && sys::can_segment(socket.as_fd())
        });
        known.then_some(()).ok_or_else(|| Unavailable {
            reason: "this kernel has no UDP segmentation".into(),
            remedy: "use Linux 5.0 or newer; udp-batched works without".into(),
        })
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        DatagramListener::bind(kind(options)?, options, segmented_circuit)
    }

    fn connect(&self, rendezvous: &Rendezvous, index: usize, options: &Options) -> CircuitResult {
        segmented_circuit(
            DatagramSocket::connect(&kind(options)?, rendezvous, index, options)?,
            options,
        )
    }

    crate::usual_transport! {
        is_one_to_many only_answers is_one_way sends_unanswered carries_empty option_to_many message_max connect_all connect_to_many
    }
}

fn segmented_circuit(socket: DatagramSocket, options: &Options) -> CircuitResult {
    let wanted = UdpOffloads::parse(&options.transport_specific).map_err(options::invalid)?;
    let segments_max = match wanted.gso {
        true => options.batch.unwrap_or(SEGMENTS_MAX).clamp(1, SEGMENTS_MAX),
        false => 1,
    };
    Ok(Box::new(SegmentedCircuit {
        port: socket,
        segments_max,
        segmentation_refused: false,
        wanted,
        segments: segments_for(segments_max, options.message_len),
        send_buffer: Vec::new(),
        receive_buffer: Vec::new(),
        unread: 0..0,
        segment_size: 1,
        part_offset: 0,
    }))
}

/// Messages of `len` bytes that fit in one segmented send; of empty ones, which are no segments, one.
fn segments_for(segments_max: usize, len: usize) -> usize {
    match len {
        0 => 1,
        len => segments_max.min(UDP_PAYLOAD_MAX / len).max(1),
    }
}

struct SegmentedCircuit {
    port: DatagramSocket,
    segments_max: usize,
    wanted: UdpOffloads,
    /// A segmented send was refused: the device lacks it, or a message exceeds the MTU.
    segmentation_refused: bool,
    /// Messages per call of the last run.
    segments: usize,
    /// Messages joined for one call. An I/O vector of separate messages would save the copy, but
    /// costs the kernel more than that for short ones (a quarter of the rate at 64 bytes).
    send_buffer: Vec<u8>,
    /// A coalesced receive; single receives return its datagrams one by one.
    receive_buffer: Vec<u8>,
    unread: Range<usize>,
    segment_size: usize,
    /// Bytes of the first unread message that were received in parts.
    part_offset: usize,
}

impl SegmentedCircuit {
    /// Joins as many copies of `message` as one call of a run of `count` sends.
    fn join(&mut self, message: &[u8], count: usize) {
        self.segments = segments_for(self.segments_max, message.len());
        self.send_buffer.clear();
        for _ in 0..self.segments.min(count) {
            self.send_buffer.extend_from_slice(message);
        }
    }

    /// Sends the first `count` of the joined messages of `len` bytes in one call.
    fn send_segments(&mut self, len: usize, count: usize) -> io::Result<()> {
        self.port.call_counts.send += 1;
        let joined = IoSlice::new(&self.send_buffer[..len * count]);
        let size = (count > 1).then_some(len);
        sys::send_segmented_with(self.port.inner.as_fd(), None, &[joined], size, 0)
    }

    #[cold]
    fn handle_send_error(&mut self, error: io::Error, len: usize, count: usize) -> io::Result<()> {
        match Errno::from_io_error(&error) {
            Some(Errno::INVAL | Errno::MSGSIZE | Errno::IO) if count > 1 => {
                self.segmentation_refused = true;
                self.segments_max = 1;
                self.segments = 1;
                Ok(())
            }
            Some(errno) => Err(self.port.send_error(errno, len)),
            None => Err(error),
        }
    }

    /// Receives coalesced datagrams into `buffer`; returns their length and the segment size.
    fn recv_coalesced(&mut self, buffer: &mut [u8], block: bool) -> io::Result<(usize, usize)> {
        self.port.call_counts.receive += 1;
        let flags = if block { 0 } else { libc::MSG_DONTWAIT };
        let socket = self.port.inner.as_fd();
        let got = match sys::receive_coalesced_with(socket, buffer, None, flags) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                sys::receive_coalesced_with(socket, buffer, None, flags)?
            }
            got => got?,
        };
        if !self.port.has_final_peer() {
            self.port.learn_peer(got.from.into())?;
        }
        Ok((got.len, got.segment_size))
    }

    fn recv_one(&mut self, buffer: &mut [u8], block: bool) -> io::Result<Option<usize>> {
        let message = self.next_message(block)?;
        let len = message.len().min(buffer.len());
        buffer[..len].copy_from_slice(&self.receive_buffer[message.start..message.start + len]);
        self.unread.start = message.end;
        self.part_offset = 0;
        Ok(Some(len))
    }

    /// Copies the next part of a message; what does not fit stays.
    fn recv_part(&mut self, buffer: &mut [u8]) -> io::Result<Part> {
        let message = self.next_message(true)?;
        let len = message.len().min(buffer.len());
        buffer[..len].copy_from_slice(&self.receive_buffer[message.start..message.start + len]);
        let end = len == message.len();
        if end {
            self.unread.start = message.end;
            self.part_offset = 0;
        } else {
            self.part_offset += len;
        }
        Ok(Part {
            len,
            end,
            note: Note::default(),
        })
    }

    /// Where the next message, or what is left of it, lies in the receive buffer.
    #[inline]
    fn next_message(&mut self, block: bool) -> io::Result<Range<usize>> {
        if self.unread.is_empty() {
            let mut arrival = std::mem::take(&mut self.receive_buffer);
            arrival.resize(COALESCED_LEN_MAX, 0);
            let got = self.recv_coalesced(&mut arrival, block);
            self.receive_buffer = arrival;
            let (len, segment_size) = got?;
            self.unread = 0..len;
            self.segment_size = segment_size;
        }
        let end = self.unread.end.min(self.unread.start + self.segment_size);
        Ok(self.unread.start + self.part_offset..end)
    }

    /// Counts the datagrams that single receives left unread, or those of one more call.
    fn recv_counted(&mut self, buffer: &mut [u8]) -> io::Result<ReceiveCounts> {
        let (len, segment_size) = if self.unread.is_empty() {
            self.recv_into_large_enough(buffer)?
        } else {
            (std::mem::take(&mut self.unread).len(), self.segment_size)
        };
        // What is left of a message counts as one.
        let parts = std::mem::take(&mut self.part_offset);
        Ok(ReceiveCounts {
            messages: len.div_ceil(segment_size).max(1) as u64,
            bytes: (len - parts) as u64,
            calls: 1,
        })
    }

    fn recv_into_large_enough(&mut self, buffer: &mut [u8]) -> io::Result<(usize, usize)> {
        if buffer.len() >= COALESCED_LEN_MAX {
            return self.recv_coalesced(buffer, true);
        }
        let mut arrival = std::mem::take(&mut self.receive_buffer);
        arrival.resize(COALESCED_LEN_MAX, 0);
        let got = self.recv_coalesced(&mut arrival, true);
        self.receive_buffer = arrival;
        got
    }
}

impl Circuit for SegmentedCircuit {
    parts::blocks_by_flag! { port.send, recv_one }

    parts::carries_no_notes! {}

    fn receive_part(&mut self, buffer: &mut [u8]) -> io::Result<Option<Part>> {
        self.recv_part(buffer).map(Some)
    }

    parts::lends_nothing! {}

    fn send_run(&mut self, message: &[u8], count: usize) -> io::Result<usize> {
        if !self.port.is_connected() {
            self.port.send(message, true)?;
            return Ok(1);
        }
        self.join(message, count);
        // The last call of a run is as full as the others: fewer messages would cost a call as well.
        let whole = match count < self.segments {
            true => count,
            false => count - count % self.segments,
        };
        send_run(whole, |left| {
            let together = self.segments.min(left);
            match self.send_segments(message.len(), together) {
                Ok(()) => Ok(together),
                Err(error) => self
                    .handle_send_error(error, message.len(), together)
                    .map(|()| 0),
            }
        })
    }

    /// With a `buffer` under 64 KiB, messages are received into the circuit's own buffer.
    fn recv_run(&mut self, buffer: &mut [u8], calls: usize) -> io::Result<Option<ReceiveCounts>> {
        receive_calls(calls, || self.recv_counted(buffer)).map(Some)
    }

    fn wait(&mut self, interest: Interest, deadline: Instant) -> io::Result<()> {
        if interest == Interest::Read && !self.unread.is_empty() {
            return Ok(());
        }
        self.port.wait(interest, deadline)
    }

    engine::forward! { self.port;
        fn descriptor(&self) -> Option<BorrowedFd<'_>>;
        fn counts(&self) -> BTreeMap<String, u64>;
    }

    parts::connectionless! {}

    fn effective(&self) -> BTreeMap<String, String> {
        let mut effective = self.port.effective();
        let segmentation = match (self.segmentation_refused, self.segments) {
            _ if !self.wanted.gso => "off: as asked".to_owned(),
            (true, _) => "off: refused by the path".to_owned(),
            (false, 1) => "off: one message fills a call".to_owned(),
            (false, segments) => format!("on, {segments} segments"),
        };
        effective.insert("segmentation".into(), segmentation);
        let coalescing = if self.wanted.gro { "on" } else { "off" };
        effective.insert("coalescing".into(), coalescing.into());
        effective
    }

    crate::usual_circuit! { send_shared_run flush next_deadline }
}
