//! XTP for C programs: the Berkeley calls with the family `PF_XTP`.
//!
//! A program that includes `towpath.h` and is rebuilt speaks XTP where it asks for the family, and
//! what it always spoke elsewhere. The header maps the names of the calls that must differ; all
//! others are the system's, because a socket of this library is a real descriptor: one end of a
//! socket pair, whose other end a thread of the library carries to and from an association
//! ([`library::forward`]). So poll, select, epoll, fcntl, dup, writev and fork work as ever.
//!
//! * `sys` - what C calls: arguments to values, errors to errno. The only unsafe code, and no panic
//!   passes it.
//! * `calls` - what the calls do.
//! * `table` - what is known of each descriptor.
//! * `service` - the thread of an endpoint.

mod calls;
mod service;
mod sys;
mod table;
