//! Interoperation of our engine with other stacks: both roles, with loss, reordering and duplication.

mod addresses;
mod allocations;
mod authentication;
mod interop;
mod peers;
mod reset;
