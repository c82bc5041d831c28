//! A library for LD_PRELOAD: TCP connections of an unmodified program go over XTP where a file of rules says so.
//!
//! * `rules` - the file: which connections, by family, host and port, go over which transport.
//! * `sys` - the interposed socket calls. The only unsafe code.
//!
//! What a diverted socket does is the work of libtowpath, which is loaded when a rule needs it; a connection that no rule
//! names makes the system's calls and no others.

mod rules;
mod sys;
