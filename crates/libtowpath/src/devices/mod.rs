//! Sockets over STREAMS: byte streams whose connections a provider of XTI carries, named by its device.
//!
//! A socket is one end of a socket pair, as those of XTP are. Two threads a connection make what the program writes
//! into T_DATA_REQ, and what comes into octets to read, as `sockmod` does within a stream.
//!
//! * `connection` - a connection and its threads.
//! * `datagrams` - datagram sockets, whose calls need neither threads nor a pair.

mod connection;
pub(crate) mod datagrams;

pub(crate) use connection::{DeviceConnection, drain_all};

use crate::socket_pair::{ConnState, SocketPairEnd};
use crate::stream_service::{AcceptQueue, PendingConn, announce, socket_pair};
use library::xti_carrier;
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::net::SocketType;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use xti::{StreamOptions, TliError, XtiEndpoint, inet};

/// The option of a socket that names its device.
pub(crate) const OPTION: &str = "device";

/// The option that names how the library uses the device.
pub(crate) const WAY: &str = "way";

/// How often a listener looks whether it was closed, and how long it waits when the process is out of descriptors.
const TURN: Duration = Duration::from_millis(100);

/// A provider of connections on the Internet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Device {
    /// The kernel's TCP.
    Tcp,
    /// XTP over UDP.
    Xtp,
    /// SCTP over UDP.
    Sctp,
}

impl Device {
    /// The device with a name.
    pub(crate) fn named(name: &str) -> Option<Device> {
        Some(match name {
            "/dev/tcp" => Device::Tcp,
            "/dev/xtp" => Device::Xtp,
            "/dev/sctp_t" => Device::Sctp,
            _ => return None,
        })
    }

    fn open(self) -> io::Result<XtiEndpoint> {
        let options = StreamOptions::default();
        let carrier = match self {
            Device::Tcp => {
                // A listener that starts again gets its port, as every server asks for.
                let setup: inet::Setup = Arc::new(|socket| socket.set_reuse_address(true));
                return Ok(XtiEndpoint::open_tcp(setup, options)?);
            }
            Device::Xtp => xti_carrier::xtp(&library::xtp::EndpointConfig::default()),
            Device::Sctp => xti_carrier::sctp(&library::sctp::EndpointConfig::default()),
        };
        Ok(XtiEndpoint::open_over(carrier, options)?)
    }
}

/// Whether calls on a descriptor wait.
pub(crate) fn is_blocking(fd: BorrowedFd<'_>) -> bool {
    fcntl_getfl(fd).is_ok_and(|flags| !flags.contains(OFlags::NONBLOCK))
}

/// A device, and how the library uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) device: Device,
    /// Module `sockmod` has the state of the socket; else the library makes the primitives itself.
    pub(crate) has_sockmod: bool,
}

impl Path {
    /// The path that the options of a socket name.
    pub(crate) fn of(options: &BTreeMap<String, String>) -> Option<Path> {
        let device = Device::named(options.get(OPTION)?)?;
        let has_sockmod = match options.get(WAY).map(String::as_str) {
            None | Some("library") => false,
            Some("sockmod") => true,
            Some(_) => return None,
        };
        Some(Path {
            device,
            has_sockmod,
        })
    }

    fn open(self) -> io::Result<XtiEndpoint> {
        let end = self.device.open()?;
        if self.has_sockmod {
            end.push_sockmod(libc::AF_INET.cast_unsigned())?;
        }
        Ok(end)
    }
}

/// Accepts connections of a device, until it is dropped.
pub(crate) struct DeviceListener {
    /// Where it listens.
    pub(crate) local: SocketAddr,
    pub(crate) queue: AcceptQueue,
    is_closed: Arc<AtomicBool>,
}

impl DeviceListener {
    /// Listens at `local`; `link` is the listening socket, and `backlog` how many connections may wait.
    pub(crate) fn start(
        path: Path,
        local: SocketAddr,
        link: Arc<SocketPairEnd>,
        backlog: usize,
    ) -> io::Result<DeviceListener> {
        let end = path.open()?;
        let bound = end.bind(&inet::encode(local), backlog as u32);
        let bound = bound.map_err(connection::to_io_error)?;
        let queue = AcceptQueue::new(backlog);
        let is_closed = Arc::new(AtomicBool::new(false));
        let accepting = Accepting {
            path,
            end,
            link,
            queue: queue.clone(),
            is_closed: Arc::clone(&is_closed),
        };
        let thread = std::thread::Builder::new().name("towpath-accept".into());
        thread.spawn(move || accepting.run())?;
        Ok(DeviceListener {
            local: inet::decode(&bound.address).unwrap_or(local),
            queue,
            is_closed,
        })
    }
}

impl Drop for DeviceListener {
    fn drop(&mut self) {
        self.is_closed.store(true, Ordering::Release);
        self.queue.close();
    }
}

/// The thread of a listener.
struct Accepting {
    path: Path,
    end: XtiEndpoint,
    link: Arc<SocketPairEnd>,
    queue: AcceptQueue,
    is_closed: Arc<AtomicBool>,
}

impl Accepting {
    fn run(&self) {
        while !self.is_closed.load(Ordering::Acquire) {
            match self.end.listen(Instant::now() + TURN) {
                Ok(call) => {
                    let peer = inet::decode(&call.address);
                    if self.accept(call.sequence, peer).is_err() {
                        // It may be gone already.
                        let _ = self.end.send_disconnect(Some(call.sequence));
                    }
                }
                Err(error) if error.tli == TliError::NoData => {}
                Err(error) if error.tli == TliError::Look => {
                    let _ = self.end.receive_disconnect();
                }
                Err(_) => std::thread::sleep(TURN),
            }
        }
    }

    fn accept(&self, sequence: u32, peer: Option<SocketAddr>) -> io::Result<()> {
        let peer = peer.ok_or(io::ErrorKind::InvalidData)?;
        if !self.queue.has_room() {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let end = self.path.open()?;
        let (program, link) = socket_pair(SocketType::STREAM, ConnState::Established)?;
        self.end.accept(&end, sequence)?;
        if self.path.has_sockmod {
            end.socket_accepted(&inet::encode(peer))?;
        }
        let waiting = PendingConn {
            program,
            peer,
            circuit: None,
            link: Arc::clone(&link),
            direct: None,
        };
        // Dropped by a queue that was closed, the pair ends, and with it the connection.
        let connection = DeviceConnection::new(self.path, end, link);
        connection.carry()?;
        announce(&self.link, &self.queue, waiting)
    }
}
