//! Packet sizes, sampled by an AF_PACKET socket.
//!
//! The socket sees every packet of this network namespace when it is sent, and on the loopback
//! again when it is received: sizes are meaningful, counts are not. Sampling costs CPU time, so
//! only pilots are sampled, which take no part in verdicts. A large packet may leave a real
//! interface in several frames, because segmentation offload happens below this socket.

use hdrhistogram::Histogram;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SocketType};
use std::io;
use std::num::NonZeroU32;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// All protocols (`<linux/if_ether.h>`).
const ETH_P_ALL: u16 = 3;

/// Receive timeout, after which the stop flag is checked.
const STOP_POLL: Duration = Duration::from_millis(10);

/// Receive buffer of the sampling socket, octets.
const RECEIVE_BUFFER: usize = 16 << 20;

/// A running sampler.
#[derive(Debug)]
pub struct PacketSizeSampler {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Histogram<u64>>,
}

impl PacketSizeSampler {
    /// Starts the sampling thread.
    ///
    /// # Errors
    ///
    /// Without CAP_NET_RAW.
    pub fn start() -> io::Result<PacketSizeSampler> {
        let socket = open_packet_socket()?;
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = std::thread::spawn(move || sample_sizes(&socket, &flag));
        Ok(PacketSizeSampler { stop, thread })
    }

    /// Stops it. Sizes are in octets from the network header on; None without packets.
    pub fn finish(self) -> Option<Histogram<u64>> {
        self.stop.store(true, Ordering::Relaxed);
        let sizes = self.thread.join().ok()?;
        (!sizes.is_empty()).then_some(sizes)
    }
}

/// Whether this process may sample packets; errors as in [`PacketSizeSampler::start`].
pub fn available() -> io::Result<()> {
    open_packet_socket().map(drop)
}

fn open_packet_socket() -> io::Result<OwnedFd> {
    let protocol = NonZeroU32::new(u32::from(ETH_P_ALL.to_be())).map(Protocol::from_raw);
    let socket = rustix::net::socket(AddressFamily::PACKET, SocketType::DGRAM, protocol)?;
    sockopt::set_socket_timeout(&socket, Timeout::Recv, Some(STOP_POLL))?;
    // With a smaller buffer fewer packets are sampled.
    let _ = sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER);
    Ok(socket)
}

fn sample_sizes(socket: &OwnedFd, stop: &AtomicBool) -> Histogram<u64> {
    let mut sizes = results::new_histogram();
    let mut front = [0u8; 1];
    while !stop.load(Ordering::Relaxed) {
        // With MSG_TRUNC the kernel returns the packet's length, which is all that is kept.
        if let Ok((_, len)) = rustix::net::recv(socket, &mut front, RecvFlags::TRUNC) {
            sizes.saturating_record(len as u64);
        }
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::PacketSizeSampler;
    use std::net::UdpSocket;

    #[test]
    fn sampler_counts_datagram_with_ip_and_udp_headers() {
        let Ok(watch) = PacketSizeSampler::start() else {
            eprintln!("SKIPPED: watching packets needs CAP_NET_RAW");
            return;
        };
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let to = receiver.local_addr().expect("an address");
        let sender = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let mut buffer = [0; 2048];
        for _ in 0..50 {
            sender.send_to(&[0; 1234], to).expect("it is sent");
            receiver.recv(&mut buffer).expect("it arrives");
        }
        // Gives the sampler time for the last packets.
        std::thread::sleep(super::STOP_POLL * 2);
        let sizes = watch.finish().expect("packets were seen");
        let size = sizes.lowest_equivalent(1234 + 20 + 8);
        assert!(sizes.count_at(size) > 0);
    }
}
