//! Engines of this project on a real wire.

mod files;
mod forward;
mod group;
mod hosts;
mod library;
mod relay;
mod skeleton;
