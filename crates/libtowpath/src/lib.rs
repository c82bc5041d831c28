//! XTP for C programs: the Berkeley calls with the family `PF_XTP`.
//!
//! A program that includes `towpath.h` and is rebuilt speaks XTP where it asks for the family, and
//! what it always spoke elsewhere. The header maps the names of the calls that must differ; all
//! others are the system's, because a socket of this library is a real descriptor: one end of a
//! socket pair, whose other end a thread of the library carries to and from associations. So poll,
//! select, epoll, fcntl, dup and fork work as ever.
//!
//! * `sys` - what C calls: arguments to values, errors to errno. The only unsafe code, and no panic
//!   passes it.
//! * `calls`, `options` - what the calls do.
//! * `table` - which descriptors are sockets of the family.
//! * `link` - the library's end of a socket.
//! * `service`, `clients` - the thread of an endpoint of byte streams ([`library::forward`]), and who
//!   shares one.
//! * `port`, `letter` - the thread of a socket of datagrams, and how they lie in its socket pair.

mod calls;
mod client_endpoints;
mod datagram_header;
mod datagram_port;
mod options;
mod socket_pair;
mod socket_table;
mod stream_service;
mod sys;
