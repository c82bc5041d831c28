//! To whom one circuit's messages go.

/// To whom the messages of one circuit to several listeners go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Each message to all of them.
    All,
    /// Each message to one of them, who is free.
    One,
}
