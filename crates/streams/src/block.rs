//! Blocks: octets with a reference count, from a pool or lent by another owner.

use std::ops::Range;
use std::sync::Arc;

/// Sizes of the blocks that a [`Pool`] keeps. A longer block is allocated for its use alone.
const CLASSES: [usize; 5] = [64, 512, 2048, 8192, 65_536];

/// Free blocks that a pool keeps of each size: so many octets, so that what a queue of short messages holds is not
/// allocated again for each batch, and so many blocks at least. With all sizes 5.3 MiB at most.
const FREE_BLOCKS: [usize; CLASSES.len()] = {
    const OCTETS: usize = 256 << 10;
    const LEAST: usize = 64;
    let mut blocks = [LEAST; CLASSES.len()];
    let mut class = 0;
    while class < CLASSES.len() {
        if OCTETS / CLASSES[class] > LEAST {
            blocks[class] = OCTETS / CLASSES[class];
        }
        class += 1;
    }
    blocks
};

/// Memory that a block can refer to without copying it.
pub trait Lender: Send + Sync {
    /// The octets, the same ones for as long as the lender lives.
    fn octets(&self) -> &[u8];
}

enum Memory {
    Own(Box<[u8]>),
    Lent(Box<dyn Lender>),
}

impl Memory {
    fn octets(&self) -> &[u8] {
        match self {
            Memory::Own(octets) => octets,
            Memory::Lent(lender) => lender.octets(),
        }
    }
}

/// A range of octets of memory with a reference count (mblk and dblk of SVR4).
///
/// Room before and behind the range belongs to the memory: a module puts its header there.
pub struct Block {
    memory: Arc<Memory>,
    start: u32,
    end: u32,
}

impl Block {
    /// A block without room.
    pub fn lent(lender: Box<dyn Lender>) -> Block {
        let end = lender.octets().len() as u32;
        let memory = Arc::new(Memory::Lent(lender));
        Block {
            memory,
            start: 0,
            end,
        }
    }

    /// Its octets.
    #[inline]
    pub fn octets(&self) -> &[u8] {
        &self.memory.octets()[self.start as usize..self.end as usize]
    }

    /// Number of its octets.
    #[inline]
    pub fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// Whether it has no octets.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// A second reference to the same octets (dupb).
    pub fn duplicate(&self) -> Block {
        Block {
            memory: Arc::clone(&self.memory),
            start: self.start,
            end: self.end,
        }
    }

    /// Drops all but the octets `range`.
    ///
    /// # Panics
    ///
    /// When the range lies outside.
    pub fn keep(&mut self, range: Range<usize>) {
        assert!(
            range.start <= range.end && range.end <= self.len(),
            "a range of the block"
        );
        self.end = self.start + range.end as u32;
        self.start += range.start as u32;
    }

    /// Cuts the first `len` octets off into a block of their own; both refer to the same memory.
    ///
    /// # Panics
    ///
    /// When the block is shorter.
    pub fn split_to(&mut self, len: usize) -> Block {
        let mut first = self.duplicate();
        first.keep(0..len);
        self.keep(len..self.len());
        first
    }

    /// Its octets to write to: None when others refer to the memory, or a lender owns it.
    pub fn octets_mut(&mut self) -> Option<&mut [u8]> {
        let range = self.start as usize..self.end as usize;
        match Arc::get_mut(&mut self.memory)? {
            Memory::Own(octets) => Some(&mut octets[range]),
            Memory::Lent(_) => None,
        }
    }

    /// Puts `octets` in front of the others, where the room for it is. False: no room, or the memory
    /// is shared.
    pub fn prepend(&mut self, octets: &[u8]) -> bool {
        let start = self.start as usize;
        let Some(at) = start.checked_sub(octets.len()) else {
            return false;
        };
        let Some(Memory::Own(memory)) = Arc::get_mut(&mut self.memory) else {
            return false;
        };
        memory[at..start].copy_from_slice(octets);
        self.start = at as u32;
        true
    }

    /// Puts as many of `octets` behind the others as there is room for; returns how many.
    #[inline]
    pub fn append(&mut self, octets: &[u8]) -> usize {
        let end = self.end as usize;
        let Some(Memory::Own(memory)) = Arc::get_mut(&mut self.memory) else {
            return 0;
        };
        let len = octets.len().min(memory.len() - end);
        memory[end..end + len].copy_from_slice(&octets[..len]);
        self.end += len as u32;
        len
    }

    /// Lets `read` write into the room behind the octets; what it returns is added to them.
    ///
    /// # Errors
    ///
    /// Those of `read`; `InvalidInput` when the memory is shared or lent.
    pub fn fill(
        &mut self,
        read: impl FnOnce(&mut [u8]) -> std::io::Result<usize>,
    ) -> std::io::Result<usize> {
        let end = self.end as usize;
        let Some(Memory::Own(memory)) = Arc::get_mut(&mut self.memory) else {
            return Err(std::io::ErrorKind::InvalidInput.into());
        };
        let room = memory.len() - end;
        let len = read(&mut memory[end..])?.min(room);
        self.end += len as u32;
        Ok(len)
    }

    /// Drops all octets; the room behind is all of the memory again.
    pub fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }

    /// Octets of room in front of the others.
    pub fn headroom(&self) -> usize {
        self.start as usize
    }
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Block({} octets)", self.len())
    }
}

/// Free blocks, so that a message in steady state allocates nothing.
#[derive(Default)]
pub struct Pool {
    free: [Vec<Arc<Memory>>; CLASSES.len()],
}

impl Pool {
    /// An empty block with room for `headroom` octets in front and at least `room` behind (allocb).
    #[inline]
    pub fn allocate(&mut self, headroom: usize, room: usize) -> Block {
        let needed = headroom + room;
        let class = CLASSES.iter().position(|&size| size >= needed);
        let kept = class.and_then(|class| self.free[class].pop());
        let size = class.map_or(needed, |class| CLASSES[class]);
        let memory =
            kept.unwrap_or_else(|| Arc::new(Memory::Own(vec![0; size].into_boxed_slice())));
        Block {
            memory,
            start: headroom as u32,
            end: headroom as u32,
        }
    }

    /// A block with a copy of `octets`, behind `headroom` octets of room.
    #[inline]
    pub fn copy(&mut self, headroom: usize, octets: &[u8]) -> Block {
        let mut block = self.allocate(headroom, octets.len());
        let copied = block.append(octets);
        debug_assert_eq!(copied, octets.len());
        block
    }

    /// Takes a block back (freeb). Its memory is kept if nothing else refers to it.
    #[inline]
    pub fn release(&mut self, mut block: Block) {
        // Counted first: to ask whether memory is unshared locks its count.
        if Arc::strong_count(&block.memory) > 1 {
            return;
        }
        let Some(Memory::Own(octets)) = Arc::get_mut(&mut block.memory) else {
            return;
        };
        let Some(class) = CLASSES.iter().position(|&size| size == octets.len()) else {
            return;
        };
        if self.free[class].len() < FREE_BLOCKS[class] {
            self.free[class].push(block.memory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(Vec<u8>);

    impl Lender for Fixed {
        fn octets(&self) -> &[u8] {
            &self.0
        }
    }

    #[test]
    fn header_goes_into_the_room_in_front() {
        let mut pool = Pool::default();
        let mut block = pool.copy(4, b"data");
        assert!(block.prepend(b"head"));
        assert_eq!(block.octets(), b"headdata");
        assert!(!block.prepend(b"x"), "the room is used up");
    }

    #[test]
    fn shared_or_lent_memory_is_not_written() {
        let mut pool = Pool::default();
        let mut block = pool.copy(4, b"data");
        let second = block.duplicate();
        assert!(!block.prepend(b"h"));
        assert_eq!(block.append(b"x"), 0);
        assert!(block.octets_mut().is_none());
        drop(second);
        assert!(block.octets_mut().is_some());
        let mut lent = Block::lent(Box::new(Fixed(b"lent".to_vec())));
        assert_eq!(lent.octets(), b"lent");
        assert!(lent.octets_mut().is_none());
    }

    #[test]
    fn split_block_keeps_all_octets_in_order() {
        let mut pool = Pool::default();
        let mut block = pool.copy(0, b"abcdef");
        let first = block.split_to(2);
        assert_eq!((first.octets(), block.octets()), (&b"ab"[..], &b"cdef"[..]));
    }

    #[test]
    fn blocks_of_a_full_queue_of_short_messages_are_all_used_again() {
        let mut pool = Pool::default();
        let mut fill = || -> Vec<*const u8> {
            let blocks: Vec<Block> = (0..512).map(|_| pool.copy(0, &[1; 64])).collect();
            let mut places: Vec<_> = blocks.iter().map(|block| block.octets().as_ptr()).collect();
            places.sort_unstable();
            for block in blocks {
                pool.release(block);
            }
            places
        };
        assert_eq!(fill(), fill());
    }

    #[test]
    fn released_memory_is_used_again_unless_it_is_shared() {
        let mut pool = Pool::default();
        let block = pool.copy(0, b"first");
        let at = block.octets().as_ptr();
        pool.release(block);
        let again = pool.copy(0, b"again");
        assert_eq!(again.octets().as_ptr(), at);
        let shared = again.duplicate();
        pool.release(again);
        let other = pool.copy(0, b"other");
        assert_ne!(other.octets().as_ptr(), at);
        assert_eq!(shared.octets(), b"again");
    }
}
