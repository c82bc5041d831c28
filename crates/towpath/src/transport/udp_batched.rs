//! udp-batched: the kernel's UDP, many messages per call (sendmmsg, recvmmsg).
//!
//! Each datagram still passes through the network stack alone; only system-call entries are saved.
//! Single sends and receives are one datagram per call, as in `udp-connected`.

use crate::contract::{Circuit, CircuitResult, Class, Interest, Part, ReceiveCounts};
use crate::datagram::DatagramSocket;
use crate::options::Options;
use crate::parts;
use crate::runs::{receive_calls, send_run};
use crate::transport::datagrams::{DatagramTransport, UDP_CLASS, UDP_CONNECTED};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;
use wire_udp::sys::{MmsgReceiver, MmsgSender};

/// The transport.
pub static UDP_BATCHED: DatagramTransport = DatagramTransport {
    name: "udp-batched",
    summary: "kernel UDP, 32 messages a sendmmsg and a recvmmsg",
    class: Class {
        offload: "sendmmsg and recvmmsg",
        ..UDP_CLASS
    },
    make_circuit: batched_circuit,
    ..UDP_CONNECTED
};

/// Default datagrams per call. Above about 32 the gain flattens: kernel entry is then a few percent
/// of the call.
const BATCH: usize = 32;

/// The most the kernel takes in one call (UIO_MAXIOV).
const BATCH_MAX: usize = 1024;

/// Smallest receive buffer of a message: a full Ethernet frame, so that a mix of short messages
/// needs no larger buffers.
const MESSAGE_MIN: usize = 2048;

fn batched_circuit(socket: DatagramSocket, options: &Options) -> CircuitResult {
    let batch = options.batch.unwrap_or(BATCH).clamp(1, BATCH_MAX);
    Ok(Box::new(UdpBatchedCircuit {
        port: socket,
        sender: MmsgSender::new(batch),
        receiver: None,
        message_len: options.message_len.max(MESSAGE_MIN),
    }))
}

struct UdpBatchedCircuit {
    port: DatagramSocket,
    sender: MmsgSender,
    /// Made by the first batched receive: circuits that only send need no buffers.
    receiver: Option<MmsgReceiver>,
    message_len: usize,
}

impl UdpBatchedCircuit {
    fn send_many(&mut self, message: &[u8], count: usize) -> io::Result<usize> {
        self.port.call_counts.send += 1;
        let socket = self.port.inner.as_fd();
        let sent = match self.sender.send(socket, message, count, 0) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                self.sender.send(socket, message, count, 0)
            }
            sent => sent,
        };
        sent.map_err(|error| match Errno::from_io_error(&error) {
            Some(errno) => self.port.send_error(errno, message.len()),
            None => error,
        })
    }

    fn recv_many(&mut self) -> io::Result<ReceiveCounts> {
        let batch = self.sender.capacity();
        let len = self.message_len;
        let receiver = self
            .receiver
            .get_or_insert_with(|| MmsgReceiver::new(len, batch));
        let socket = self.port.inner.as_fd();
        self.port.call_counts.receive += 1;
        let got = match receiver.receive(socket, batch, 0) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                receiver.receive(socket, batch, 0)?
            }
            got => got?,
        };
        let mut bytes = 0;
        for index in 0..got {
            let (len, cut) = receiver.datagram_len(index);
            if cut {
                return Err(truncated_message(self.message_len));
            }
            bytes += len as u64;
        }
        Ok(ReceiveCounts {
            messages: got as u64,
            bytes,
            calls: 1,
        })
    }
}

#[cold]
fn truncated_message(limit: usize) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!(
            "a message was longer than the receive buffers ({limit} bytes); set the message \
             length at both ends"
        ),
    )
}

impl Circuit for UdpBatchedCircuit {
    parts::blocks_by_flag! { port.send, port.recv }

    parts::carries_no_notes! {}

    fn receive_part(&mut self, buffer: &mut [u8]) -> io::Result<Option<Part>> {
        self.port.recv_part(buffer).map(Some)
    }

    parts::lends_nothing! {}

    fn send_run(&mut self, message: &[u8], count: usize) -> io::Result<usize> {
        if !self.port.is_connected() {
            self.port.send(message, true)?;
            return Ok(1);
        }
        send_run(count, |left| self.send_many(message, left))
    }

    /// Messages are received into the circuit's own buffers; `buffer` is not written.
    fn recv_run(&mut self, buffer: &mut [u8], calls: usize) -> io::Result<Option<ReceiveCounts>> {
        if !self.port.has_final_peer() || self.port.has_rest() {
            let mut arrived = ReceiveCounts::default();
            arrived.add(self.port.recv_datagram(buffer, true)?);
            return Ok(Some(arrived));
        }
        receive_calls(calls, || self.recv_many()).map(Some)
    }

    engine::forward! { self.port;
        fn wait(&mut self, interest: Interest, deadline: Instant) -> io::Result<()>;
        fn descriptor(&self) -> Option<BorrowedFd<'_>>;
        fn counts(&self) -> BTreeMap<String, u64>;
    }

    parts::connectionless! {}

    fn effective(&self) -> BTreeMap<String, String> {
        let mut effective = self.port.effective();
        effective.insert("batch".into(), self.sender.capacity().to_string());
        effective
    }

    crate::usual_circuit! { send_shared_run flush next_deadline }
}
