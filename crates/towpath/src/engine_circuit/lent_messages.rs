//! Shared messages that are lent: each is written once into pages of its own, and sent from there again and again, as by
//! a user who makes his messages where they are sent from.

use driver::lend::{Buffer, LEND_BYTES_MIN, PageBuffer};
use std::sync::Arc;

/// Messages that are held at a time: a mix has two.
const HELD_MAX: usize = 4;

/// What a circuit lends.
#[derive(Debug, Default)]
pub(super) struct LentMessages {
    held: Vec<(Arc<[u8]>, Arc<PageBuffer>)>,
}

impl LentMessages {
    /// The buffer to lend for `message`: the message itself if `by_reference` is false, there is no memory, or it is so
    /// short that it will be copied.
    #[inline]
    pub(super) fn buffer(&mut self, message: &Arc<[u8]>, by_reference: bool) -> Buffer {
        if !by_reference || message.len() < LEND_BYTES_MIN {
            return Arc::clone(message).into();
        }
        let known = self
            .held
            .iter()
            .find(|(held, _)| Arc::ptr_eq(held, message));
        match known {
            Some((_, pages)) => Arc::clone(pages).into(),
            None => self.hold(message),
        }
    }

    #[cold]
    fn hold(&mut self, message: &Arc<[u8]>) -> Buffer {
        let Ok(pages) = PageBuffer::copy_of(message) else {
            return Arc::clone(message).into();
        };
        if self.held.len() >= HELD_MAX {
            self.held.remove(0);
        }
        let pages = Arc::new(pages);
        self.held.push((Arc::clone(message), Arc::clone(&pages)));
        pages.into()
    }
}
