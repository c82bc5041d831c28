//! Engines under the pump in virtual time.

mod add_engine;
