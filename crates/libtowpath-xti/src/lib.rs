//! XTI for C programs: `t_open`, `t_bind`, `t_connect` and their kin, of `xti.h`, and of TLI's `tiuser.h`.
//!
//! A program that includes one of the headers and is linked with `-ltowpath_xti` has XTI over the providers of crate
//! `xti`: `/dev/tcp`, `/dev/udp`, `/dev/unix_cotsord`, `/dev/unix_clts`, and the loop-back providers `/dev/ticlts`,
//! `/dev/ticots` and `/dev/ticotsord`; and over our own protocols, `/dev/xtp` and `/dev/sctp_t`.
//!
//! * `sys` - the C entry points: structures of C to values, errors to `t_errno`. The only unsafe code; panics do not
//!   cross it.
//! * `endpoint` - an endpoint of a C program: waits, unless its descriptor is non-blocking, and events.
//! * `descriptor` - the descriptor of an endpoint, on which poll and select work.
//! * `watcher` - the thread that tells poll what no descriptor tells.
//! * `table` - which descriptors are endpoints.

mod descriptor;
mod endpoint;
mod sys;
mod table;
mod watcher;
