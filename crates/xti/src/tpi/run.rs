//! A run: several whole messages in one message of a stream, between the library and a provider of this crate alone.
//! Its control part has a number that TPI does not give, then the length of each message; its data are those of
//! all, in one block.

use streams::Block;

/// Messages of a run at most.
pub(crate) const RUN_MESSAGES: usize = 256;

/// Octets of messages that a run collects: no message is added to as many.
pub(crate) const RUN_OCTETS: usize = 8192;

/// Octets of the control part of the longest run.
pub(crate) const RUN_CONTROL: usize = WORD * (1 + RUN_MESSAGES);

/// No primitive of TPI has it.
const NUMBER: [u8; WORD] = 0x5255_4e00_u32.to_ne_bytes();

const WORD: usize = size_of::<u32>();

/// Begins the control part of a run in an empty block with room for [`RUN_CONTROL`].
pub(crate) fn begin_run(control: &mut Block) {
    control.append(&NUMBER);
}

/// Notes a message; the block has room for it.
#[inline]
pub(crate) fn add_to_run(control: &mut Block, len: usize) {
    control.append(&(len as u32).to_ne_bytes());
}

/// Messages that the control part of a run lists.
#[inline]
pub(crate) fn run_messages(control: &Block) -> usize {
    control.len() / WORD - 1
}

/// Whether a control part is that of a run.
#[inline]
pub(crate) fn is_run(control: &[u8]) -> bool {
    control.first_chunk() == Some(&NUMBER)
}

/// Lengths of the messages of a run, from message number `first` on.
#[inline]
pub(crate) fn run_lengths(control: &[u8], first: usize) -> impl Iterator<Item = usize> {
    let rest = control.get(WORD * (1 + first)..).unwrap_or_default();
    let words = rest.as_chunks::<WORD>().0.iter();
    words.map(|word| u32::from_ne_bytes(*word) as usize)
}

/// Drops the first `messages` of a run from its control part, which nothing else refers to.
pub(crate) fn forget_sent(control: &mut Block, messages: usize) {
    control.keep(WORD * messages..control.len());
    if let Some(number) = control
        .octets_mut()
        .and_then(|octets| octets.first_chunk_mut())
    {
        *number = NUMBER;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use streams::Pool;

    fn run(pool: &mut Pool, lengths: &[usize]) -> Block {
        let mut control = pool.allocate(0, RUN_CONTROL);
        begin_run(&mut control);
        lengths
            .iter()
            .for_each(|len| add_to_run(&mut control, *len));
        control
    }

    #[test]
    fn lengths_come_back_from_any_message_on() {
        let mut pool = Pool::default();
        let control = run(&mut pool, &[3, 0, 65_536]);
        assert!(is_run(control.octets()));
        assert_eq!(run_messages(&control), 3);
        let from = |first| run_lengths(control.octets(), first).collect::<Vec<_>>();
        assert_eq!(
            (from(0), from(2), from(3), from(9)),
            (vec![3, 0, 65_536], vec![65_536], vec![], vec![])
        );
    }

    #[test]
    fn what_was_sent_is_forgotten() {
        let mut pool = Pool::default();
        let mut control = run(&mut pool, &[1, 2, 3]);
        forget_sent(&mut control, 2);
        assert!(is_run(control.octets()));
        assert_eq!(run_lengths(control.octets(), 0).collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn no_primitive_is_a_run() {
        for number in 0..64_u32 {
            assert!(!is_run(&number.to_ne_bytes()));
        }
        assert!(!is_run(&[]));
    }
}
