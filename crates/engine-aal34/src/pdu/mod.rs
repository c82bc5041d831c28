//! Formats: the cell and its header check, SAR-PDUs with CRC-10, the PDUs of the common part
//! (CPCS), the control cell of repair.

pub mod aal5;
pub mod cell;
pub mod control;
pub mod cpcs;
pub mod crc10;
pub mod crc32;
pub mod hec;
pub mod sar;
