//! Paths through the pumps: errors of one path, groups joined and left at any time.

mod company;
mod errors;
mod groups;
mod hundred_peers;
mod many;
mod panics;
mod postman;
