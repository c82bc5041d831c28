//! Captures, read back here and by tshark.

mod cells;
mod file;
mod forwarding;
mod interface;
mod namespace;
mod tap;
mod tshark;
mod virtual_session;
