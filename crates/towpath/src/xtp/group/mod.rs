//! Reliable multicast: one sender, any number of receivers, each byte sent once for all.
//!
//! A group is a multicast address and a port, such as `239.1.2.3:5000`. Receivers join it; a sender
//! opens a stream to it, waits until as many as it wants are there, and sends. The network copies the
//! packets, and what anybody loses is sent again. Each receiver is a member the sender knows: it can
//! say at any time who has what, and who left or fell silent while the others went on.
//!
//! ```
//! use std::time::Duration;
//! use towpath::xtp::group::{Receiver, Sender, Settings, Standing};
//!
//! let limit = Duration::from_secs(10);
//! // Which interface: here the loopback, where this example stays.
//! let local = "127.0.0.1".parse()?;
//! let group = towpath::xtp::group::example_group();
//!
//! let receive = move || -> std::io::Result<Vec<u8>> {
//!     let receiver = Receiver::join(group, local, &Settings::default())?;
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
//! let mut sender = Sender::open(group, local, &Settings::for_members(3))?;
//! sender.wait_ready(limit)?;
//! sender.send(b"to all of you", limit)?;
//! let report = sender.close(limit)?;
//! assert!(report.iter().all(|member| member.standing == Standing::Done));
//! for receiver in receivers {
//!     assert_eq!(receiver.join().expect("no receiver panics")?, b"to all of you");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A file to N named hosts
//!
//! 1. Each host runs a [`Receiver`] of the same group, by whatever way programs are started there, and
//!    accepts streams: a host may get several files at once, each in a stream of its own.
//! 2. The sender resolves the names, sets [`Config::admitted`] to their addresses, so that nobody else
//!    joins, and [`Settings::for_members`] to their number. [`Sender::wait_ready`] waits for all;
//!    when it gives `TimedOut`, [`Sender::members`] shows who is there, hence who is missing.
//! 3. The first message says what comes: name, length, hash. Bytes of a stream have no borders, so it
//!    begins with its own length; with [`Settings::messages`] each send is a message instead.
//! 4. The bytes follow, [`Sender::send`] by [`Sender::send`], 64 KiB at a time.
//! 5. [`Sender::close`] waits until all members have everything and gives the report: `Done` for who
//!    has it, `Silent`, `Left`, `Lost` or `Restarted` for who has not, with the number of bytes each
//!    had. A member is `Done` when its *protocol* has all bytes; whether the file is whole on the disk
//!    is for the receiver to say, by hash, on a circuit of [`crate::xtp::Endpoint`] to the sender.
//! 6. A transfer that broke off goes on by a new stream whose first message says from where: the
//!    smallest `received` of those that lack something, or one stream for each that does.
//!
//! Where the network has no multicast, [`Config::replicate`] names the receivers' addresses and the
//! sender repeats each packet to each; receivers then listen with [`Receiver::listen`] instead.
//! A [`Relay`] does the same for some members of a group that others join as ever.
//!
//! * [`settings`] - what can be set; the rest is the engine's [`Config`].
//! * [`sender`], [`receiver`] - the two ends.
//! * [`relay`] - a host between them.

pub mod config;
pub mod receiver;
pub mod relay;
pub mod sender;

pub use config::GroupEndpointConfig;
pub use engine_xtp::group::{BucketConfig, Config, LateJoin, Member, MemberState, Reliability};
pub use receiver::{Receiver, Stream};
pub use relay::Relay;
pub use sender::Sender;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{Ipv4Addr, SocketAddr};

/// A group of its own for an example or a test: an address out of 239.192.0.0/14, which no router
/// passes on (RFC 2365), and a port, both drawn.
pub fn example_group() -> SocketAddr {
    let [a, b, c, d, e, ..] = RandomState::new().build_hasher().finish().to_be_bytes();
    let address = Ipv4Addr::new(239, 192 + a % 4, b, c);
    // Below the ports that the kernel hands out; the next one is for answers.
    let port = 20_000 + 2 * (u16::from_be_bytes([d, e]) % 5000);
    SocketAddr::from((address, port))
}
