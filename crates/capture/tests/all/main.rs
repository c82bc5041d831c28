//! Captures, read back here and by tshark.

mod file;
mod interface;
mod namespace;
mod session;
mod tapped;
mod tshark;
