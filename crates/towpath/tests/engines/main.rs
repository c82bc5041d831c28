//! Engines of this project on a real wire.

mod library;
mod skeleton;
