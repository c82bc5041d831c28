//! Channels between processes one of which is killed, and channels whose peer writes anything.

mod fuzz;
mod killed;
