//! Interoperation of our engine with other stacks: both roles, with loss, reordering and duplication.

mod allocations;
mod interop;
mod peers;
