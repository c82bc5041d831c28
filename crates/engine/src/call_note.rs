//! What a message of a transaction asks for besides its octets.

use crate::EntityId;

/// Wishes of a call or of a reply (RFC 1045 section 2). The default has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallNote {
    /// Wishes with two values.
    pub flags: CallFlags,
    /// Four bits: 12 urgent, 8 important, 0 normal, 4 background; the low two make finer steps, of
    /// which larger ones come later (RFC 1045 section 2.12).
    pub priority: u8,
    /// Times the request is sent, at most; 0: as many as the protocol is configured for.
    pub tries: u8,
    /// Microseconds between two of them, without back-off; 0: as the protocol measures.
    pub spacing_us: u32,
    /// Of a message that was delivered in part: the blocks that are there, as a mask; None for a whole
    /// one. The octets of the others are zeros.
    pub delivered: Option<u32>,
    /// Of a call: the entity that the server, or the member of the group, must share its host with.
    pub co_resident: Option<EntityId>,
}

impl CallNote {
    /// Whether it has no wish.
    #[inline]
    pub fn is_none(&self) -> bool {
        let CallNote {
            flags,
            priority,
            tries,
            spacing_us,
            delivered,
            co_resident,
        } = self;
        let numbers = u32::from(flags.0) | u32::from(*priority) | u32::from(*tries) | spacing_us;
        numbers == 0 && delivered.is_none() && co_resident.is_none()
    }

    /// No wish but a priority.
    pub fn of_priority(priority: u8) -> CallNote {
        CallNote {
            priority,
            ..CallNote::default()
        }
    }

    /// The order of its priority, 0 for the most urgent: four classes of four steps.
    pub fn rank(&self) -> u8 {
        let class = match self.priority >> 2 & 3 {
            0b11 => 0,
            0b10 => 1,
            0b00 => 2,
            _ => 3,
        };
        class << 2 | self.priority & 3
    }
}

/// A set of wishes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallFlags(pub u16);

impl CallFlags {
    /// None.
    pub const NONE: CallFlags = CallFlags(0);
    /// Deliver it only to a receiver that waits now.
    pub const CONDITIONAL: CallFlags = CallFlags(1);
    /// A part of it may be delivered, if the rest does not come.
    pub const PARTIAL: CallFlags = CallFlags(1 << 1);
    /// The receiver does not ask for what is missing.
    pub const NO_REPAIR: CallFlags = CallFlags(1 << 2);
    /// The check covers the header alone.
    pub const HEADER_CHECK: CallFlags = CallFlags(1 << 3);
    /// Of a call to a group: several replies are wanted, until the caller gives the call up.
    pub const MANY_REPLIES: CallFlags = CallFlags(1 << 4);
    /// Of a call to a group: its members wait for a random time before they reply.
    pub const DELAYED_REPLIES: CallFlags = CallFlags(1 << 5);
    /// Of a call in a stream: no other follows.
    pub const END_OF_STREAM: CallFlags = CallFlags(1 << 6);
    /// Of a call: it is for the manager of the entity's host, not for the entity.
    pub const TO_MANAGER: CallFlags = CallFlags(1 << 7);
    /// Of a call: the tag is the code of a public interface.
    pub const PUBLIC_CODE: CallFlags = CallFlags(1 << 8);

    /// Whether all of these are among them.
    pub fn has(self, flags: CallFlags) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Both.
    #[must_use]
    pub fn with(self, flags: CallFlags) -> CallFlags {
        CallFlags(self.0 | flags.0)
    }

    /// These, if `wanted`.
    #[must_use]
    pub fn with_if(self, wanted: bool, flags: CallFlags) -> CallFlags {
        if wanted { self.with(flags) } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wish_is_one() {
        let none = CallNote::default();
        assert!(none.is_none());
        let wishes = [
            CallNote {
                flags: CallFlags::PUBLIC_CODE,
                ..none
            },
            CallNote::of_priority(1),
            CallNote { tries: 1, ..none },
            CallNote {
                spacing_us: 1,
                ..none
            },
            CallNote {
                delivered: Some(0),
                ..none
            },
            CallNote {
                co_resident: Some(EntityId(0)),
                ..none
            },
        ];
        for wish in wishes {
            assert!(!wish.is_none(), "{wish:?}");
        }
    }
}
