//! Encoding of requests, reading of replies: header, fixed part, attributes (netlink(7)).

/// Request with acknowledgement (`NLM_F_REQUEST | NLM_F_ACK`).
const ANSWERED: u16 = 0x1 | 0x4;

/// The object itself comes back too (`NLM_F_ECHO`).
const ECHOED: u16 = 0x8;

/// Create; fail if it exists (`NLM_F_EXCL | NLM_F_CREATE`).
const NEW: u16 = 0x200 | 0x400;

/// All objects of a kind (`NLM_F_REQUEST | NLM_F_DUMP`).
const DUMPED: u16 = 0x1 | 0x300;

/// Create or replace (`NLM_F_REPLACE | NLM_F_CREATE`).
const REPLACED: u16 = 0x100 | 0x400;

/// A reply with an error code, 0 for success.
const NLMSG_ERROR: u16 = 2;

/// The end of a dump.
pub(crate) const NLMSG_DONE: u16 = 3;

/// Octets of a message's header.
const HEADER: usize = 16;

/// A request under construction.
#[derive(Debug)]
pub struct Request {
    octets: Vec<u8>,
}

/// A nested attribute that is still open.
#[derive(Debug)]
#[must_use]
pub struct OpenAttribute {
    at: usize,
}

impl Request {
    /// Changes an existing object; `fixed` is the fixed part of this message type.
    pub fn change(kind: u16, fixed: &[u8]) -> Request {
        Request::with_flags(kind, ANSWERED, fixed)
    }

    /// Asks for an object that the kernel gives to those alone who ask for the echo.
    pub fn get_echoed(kind: u16, fixed: &[u8]) -> Request {
        Request::with_flags(kind, ANSWERED | ECHOED, fixed)
    }

    /// Asks for all objects of a kind, whose last message is NLMSG_DONE.
    pub fn dump(kind: u16, fixed: &[u8]) -> Request {
        Request::with_flags(kind, DUMPED, fixed)
    }

    /// Creates an object.
    pub fn create(kind: u16, fixed: &[u8]) -> Request {
        Request::with_flags(kind, ANSWERED | NEW, fixed)
    }

    /// Creates or replaces an object.
    pub fn replace(kind: u16, fixed: &[u8]) -> Request {
        Request::with_flags(kind, ANSWERED | REPLACED, fixed)
    }

    fn with_flags(kind: u16, flags: u16, fixed: &[u8]) -> Request {
        let mut octets = vec![0; HEADER];
        octets[4..6].copy_from_slice(&kind.to_ne_bytes());
        octets[6..8].copy_from_slice(&flags.to_ne_bytes());
        octets.extend_from_slice(fixed);
        let mut request = Request { octets };
        request.align();
        request
    }

    /// Adds an attribute.
    pub fn attribute(&mut self, kind: u16, value: &[u8]) {
        let open = self.open(kind);
        self.octets.extend_from_slice(value);
        self.close(open);
    }

    /// Adds a u32 attribute.
    pub fn number(&mut self, kind: u16, value: u32) {
        self.attribute(kind, &value.to_ne_bytes());
    }

    /// Adds a NUL-terminated string attribute.
    pub fn text(&mut self, kind: u16, value: &str) {
        let mut octets = value.as_bytes().to_vec();
        octets.push(0);
        self.attribute(kind, &octets);
    }

    /// Begins a nested attribute.
    pub fn open(&mut self, kind: u16) -> OpenAttribute {
        let at = self.octets.len();
        self.octets.extend_from_slice(&[0; 2]);
        self.octets.extend_from_slice(&kind.to_ne_bytes());
        OpenAttribute { at }
    }

    /// Adds raw octets inside a nested attribute.
    pub fn raw(&mut self, octets: &[u8]) {
        self.octets.extend_from_slice(octets);
        self.align();
    }

    /// Ends a nested attribute.
    pub fn close(&mut self, open: OpenAttribute) {
        let len = (self.octets.len() - open.at) as u16;
        self.octets[open.at..open.at + 2].copy_from_slice(&len.to_ne_bytes());
        self.align();
    }

    /// The encoded request.
    pub fn finish(mut self, sequence: u32) -> Vec<u8> {
        let len = self.octets.len() as u32;
        self.octets[0..4].copy_from_slice(&len.to_ne_bytes());
        self.octets[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.octets
    }

    /// Pads to a multiple of four.
    fn align(&mut self) {
        let len = self.octets.len().next_multiple_of(4);
        self.octets.resize(len, 0);
    }
}

/// The error code acknowledging request `sequence`, 0 or a negative errno; None for another
/// message.
pub(crate) fn acknowledgement(octets: &[u8], sequence: u32) -> Option<i32> {
    let answers = short(octets, 4)? == NLMSG_ERROR && number(octets, 8)? == sequence;
    answers.then_some(number(octets, HEADER)? as i32)
}

/// Type and body of each message; what is cut off ends them.
pub(crate) fn messages(octets: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let len_and_kind = |octets: &[u8]| Some((number(octets, 0)? as usize, short(octets, 4)?));
    parts(octets, HEADER, len_and_kind)
}

/// The value of the first attribute of that kind among `octets`; None if there is none.
pub fn attribute(octets: &[u8], kind: u16) -> Option<&[u8]> {
    /// Octets of an attribute's length and kind.
    const HEADER: usize = 4;
    let len_and_kind = |octets: &[u8]| Some((short(octets, 0)?.into(), short(octets, 2)?));
    let mut all = parts(octets, HEADER, len_and_kind);
    all.find_map(|(of, value)| (of == kind).then_some(value))
}

/// Type and body of the parts of `octets`, each with a header of `header_len` octets that says its length, the header
/// included, and its type, and each aligned to 4 octets; what is cut off ends them.
fn parts(
    mut octets: &[u8],
    header_len: usize,
    len_and_kind: impl Fn(&[u8]) -> Option<(usize, u16)>,
) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (len, kind) = len_and_kind(octets)?;
        let body = octets.get(header_len..len)?;
        octets = octets.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, body))
    })
}

/// The 16-bit number at that place.
pub(crate) fn short(octets: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(octets.get(at..at + 2)?.try_into().ok()?))
}

/// The 32-bit number at that place.
fn number(octets: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(octets.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn netlink_attribute_found_behind_others() {
        let mut request = Request::create(16, &[]);
        request.text(2, "abc12");
        request.attribute(1, &7u16.to_ne_bytes());
        let octets = request.finish(1);
        let attributes = &octets[HEADER..];
        assert_eq!(attribute(attributes, 1), Some(&7u16.to_ne_bytes()[..]));
        assert_eq!(attribute(attributes, 3), None);
        for len in 0..attributes.len() {
            // Whatever is cut off, nothing is read beyond it.
            let found = attribute(&attributes[..len], 1);
            assert!(found.is_none() || found == Some(&7u16.to_ne_bytes()[..]));
        }
        assert_eq!(attribute(&[0; 8], 1), None);
        assert_eq!(attribute(&[3, 0, 1, 0], 1), None);
    }

    #[test]
    fn messages_follow_each_other_until_one_is_cut_off() {
        let [mut first, second] =
            [28, 3].map(|kind| Request::change(kind, &[1, 2, 3, 4]).finish(1));
        // An octet of padding.
        first[0] -= 1;
        let all = [first, second].concat();
        let two: Vec<(u16, &[u8])> = vec![(28, &[1, 2, 3]), (3, &[1, 2, 3, 4])];
        assert_eq!(messages(&all).collect::<Vec<_>>(), two);
        let cut = messages(&all[..all.len() - 1]);
        assert_eq!(cut.collect::<Vec<_>>(), two[..1]);
    }

    #[test]
    fn netlink_attributes_nest_and_align() {
        let mut request = Request::create(16, &[1, 2, 3]);
        let open = request.open(18);
        request.text(1, "veth");
        request.close(open);
        let octets = request.finish(7);
        assert_eq!(octets.len(), 16 + 4 + 4 + 12);
        assert_eq!(octets[0], 36);
        assert_eq!(octets[8], 7);
        // The outer attribute includes the inner one's padding.
        assert_eq!(&octets[20..24], &[16, 0, 18, 0]);
        assert_eq!(&octets[24..28], &[9, 0, 1, 0]);
        assert_eq!(&octets[28..36], b"veth\0\0\0\0");
    }

    #[test]
    fn netlink_ack_recognised() {
        let mut octets = vec![0; 36];
        octets[4] = 2;
        octets[8] = 5;
        octets[16..20].copy_from_slice(&(-17i32).to_ne_bytes());
        assert_eq!(acknowledgement(&octets, 5), Some(-17));
        assert_eq!(acknowledgement(&octets, 6), None);
        assert_eq!(acknowledgement(&octets[..18], 5), None);
        assert_eq!(acknowledgement(&[], 5), None);
    }

    #[test]
    fn netlink_ack_of_any_octets_is_read_within_them() {
        let mut octets = [0; 20];
        let mut state = 1_u32;
        for _ in 0..200_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let at = (state >> 8) as usize % octets.len();
            octets[at] = (state >> 24) as u8 & 7;
            let cut = &octets[..(state >> 16) as usize % (octets.len() + 1)];
            let said = acknowledgement(cut, 5);
            let whole = cut.len() == 20 && cut[4] == 2 && cut[5] == 0;
            assert_eq!(said.is_some(), whole && cut[8..12] == 5_u32.to_ne_bytes());
        }
    }
}
