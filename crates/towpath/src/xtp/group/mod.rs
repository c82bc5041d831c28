//! Reliable multicast: one sender, any number of receivers, each byte sent once for all.
//!
//! A group is a multicast address and a port, such as `239.1.2.3:5000`. Receivers join it; a sender
//! opens a stream to it, waits for the number of members it wants, and sends. The network copies
//! the packets, and data lost by any member are retransmitted. The sender knows each member: how
//! much it has acknowledged, and whether it left or fell silent while the others went on.
//!
//! ```
//! use std::time::Duration;
//! use towpath::xtp::group::{GroupEndpointConfig, MemberState, Receiver, Sender};
//!
//! let limit = Duration::from_secs(10);
//! // The interface to use: here the loopback.
//! let local = "127.0.0.1".parse()?;
//! let group = towpath::xtp::group::example_group();
//!
//! let receive = move || -> std::io::Result<Vec<u8>> {
//!     let receiver = Receiver::join(group, local, &GroupEndpointConfig::default())?;
//!     let mut stream = receiver.accept(limit)?;
//!     let (mut all, mut buffer) = (Vec::new(), [0; 65_536]);
//!     while let Some(len) = stream.recv(&mut buffer, limit)? {
//!         all.extend_from_slice(&buffer[..len]);
//!     }
//!     stream.close(limit)?;
//!     Ok(all)
//! };
//! let receivers: Vec<_> = (0..3).map(|_| std::thread::spawn(receive)).collect();
//!
//! let mut sender = Sender::open(group, local, &GroupEndpointConfig::for_members(3))?;
//! sender.wait_ready(limit)?;
//! sender.send(b"to all of you", limit)?;
//! let report = sender.close(limit)?;
//! assert!(report.iter().all(|member| member.state == MemberState::Done));
//! for receiver in receivers {
//!     assert_eq!(receiver.join().expect("no receiver panics")?, b"to all of you");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A file to N named hosts
//!
//! 1. Each host runs a [`Receiver`] of the same group and accepts streams: a host may receive
//!    several files at once, each in its own stream.
//! 2. The sender resolves the names, sets [`Config::admitted`] to their addresses, so that no other
//!    host joins (and to a secret of each, told on a circuit of [`crate::xtp::Endpoint`], so that no
//!    other program on these hosts does, nor one that forges their addresses), and calls [`GroupEndpointConfig::for_members`] with their number.
//!    [`Sender::wait_ready`] waits for all; after `TimedOut`, [`Sender::members`] lists those that
//!    joined.
//! 3. The first message describes the file: name, length, hash. A stream has no message boundaries,
//!    so it begins with its own length; with [`GroupEndpointConfig::messages`] each send is a
//!    message.
//! 4. The content follows, 64 KiB per [`Sender::send`].
//! 5. [`Sender::close`] waits until all members have acknowledged everything and returns the
//!    report: `Done` for complete members, `Silent`, `Left`, `Lost`, `Restarted` or `Excluded` for the
//!    others,
//!    with the number of bytes each received. `Done` means that the member's *protocol* has all
//!    bytes; the receiver confirms the file on its disk, by hash, on a circuit of
//!    [`crate::xtp::Endpoint`].
//! 6. An aborted transfer resumes in a new stream whose first message carries the offset: the
//!    smallest `received` of the incomplete members, or one stream for each of them.
//!
//! Where the network has no multicast, [`Config::replicate`] lists the receivers' addresses and the
//! sender sends each packet to each of them; receivers then use [`Receiver::listen`]. A [`Relay`]
//! does the same for members that multicast does not reach, in a group that others join.
//!
//! * [`config`] - configuration of the two ends; the rest is in the engine's [`Config`].
//! * [`sender`], [`receiver`] - the two ends.
//! * [`relay`] - a multicast repeater between them.
//! * [`words`] - options as users write them.

pub mod config;
pub mod receiver;
pub mod relay;
pub mod sender;
pub mod words;

pub use config::GroupEndpointConfig;
pub use engine_xtp::group::{
    AdmittedHost, BucketConfig, Config, JoinSecret, LateJoin, Member, MemberState, Reliability,
};
pub use receiver::{Receiver, Stream};
pub use relay::Relay;
pub use sender::Sender;
pub use words::GroupWords;

use std::net::{Ipv4Addr, SocketAddr};

/// A random group for an example or a test: an address of 239.192.0.0/14, the organization-local
/// scope (RFC 2365 s. 6.2), and a port.
pub fn example_group() -> SocketAddr {
    let [a, b, c, d, e, ..] = crate::engine_setup::random_seed().to_be_bytes();
    let address = Ipv4Addr::new(239, 192 + a % 4, b, c);
    // Below the kernel's ephemeral ports; the next port is for the receivers' control packets.
    let port = 20_000 + 2 * (u16::from_be_bytes([d, e]) % 5000);
    SocketAddr::from((address, port))
}
