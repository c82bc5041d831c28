//! Engines of this project on a real wire.

mod group;
mod library;
mod skeleton;
