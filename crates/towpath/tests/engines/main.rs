//! Engines of this project on a real wire.

mod files;
mod forward;
mod group;
mod hosts;
mod lending;
mod library;
mod looking;
mod relay;
mod services;
mod skeleton;
