//! The system calls, behind safe functions.
#![allow(unsafe_code)]

mod recvmmsg;
mod sendmmsg;

pub(crate) use recvmmsg::ReceiveBuffers;
pub(crate) use sendmmsg::SendTables;
