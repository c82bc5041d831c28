//! Engines of this project on a real wire.

mod files;
mod forward;
mod group;
mod library;
mod skeleton;
