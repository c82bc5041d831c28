//! Interoperation of our engine with other stacks: both roles, with loss, reordering and duplication.

mod interop;
mod peers;
