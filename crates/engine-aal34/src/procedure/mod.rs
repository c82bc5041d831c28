//! Procedures: packets to cells and back.

pub mod segment;
pub mod segment5;
pub mod stream;

pub(crate) mod reassemble;
pub(crate) mod reassemble5;
pub(crate) mod repair_receive;
pub(crate) mod repair_send;
pub(crate) mod sar_input;
