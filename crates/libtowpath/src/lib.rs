//! XTP for C programs: the Berkeley socket calls with the family `PF_XTP`; SCTP's of RFC 6458; VMTP; channels.
//!
//! A program that includes `towpath.h` and is rebuilt uses XTP for sockets of this family and the
//! system's protocols for all others. The header redefines the calls that must differ. All others
//! are the system's, because a PF_XTP socket is a real descriptor: one end of a socket pair, whose
//! other end a thread of this library connects to associations. So poll, select, epoll, fcntl, dup
//! and fork work unchanged.
//!
//! * `sys` - the C entry points: arguments to values, errors to errno. The only unsafe code; panics
//!   do not cross it.
//! * `calls`, `options` - what the calls do.
//! * `socket_table` - which descriptors are PF_XTP sockets.
//! * `socket_pair` - the library's end of the socket pair.
//! * `stream_service`, `client_endpoints` - the thread of a byte-stream endpoint
//!   (`library::forward`), and the sharing of endpoints.
//! * `devices` - byte streams over a provider of XTI, for the preloaded library.
//! * `direct` - connections whose data the program's own calls move, for the preloaded library.
//! * `pipes` - pipe(2) and socketpair(2) over STREAMS, for the preloaded library.
//! * `transactions` - VMTP's calls, of `towpath_vmtp.h`: endpoints by number.
//! * `xtp_objects` - groups, and messages with tags, of `towpath_xtp.h`.
//! * `channels` - channels of shared memory, of `towpath_channel.h`.
//! * `sctp` - sockets of IPPROTO_SCTP, of `towpath_sctp.h`.
//! * `datagram_port`, `datagram_header` - the thread of a datagram socket, and datagrams in its
//!   socket pair.

mod calls;
mod channels;
mod client_endpoints;
mod datagram_header;
mod datagram_port;
mod devices;
mod direct;
mod options;
mod pipes;
mod sctp;
mod socket_pair;
mod socket_table;
mod stream_service;
mod sys;
mod transactions;
mod xtp_objects;
