//! Parser of the kernel's perf records (`perf_event_open(2)`).

/// Record types (PERF_RECORD_LOST, PERF_RECORD_SAMPLE).
const LOST: u32 = 2;
const SAMPLE: u32 = 9;

/// Octets of a record header: type, miscellaneous, length.
const HEADER: usize = 8;

/// Values from here on in a call chain are context markers (PERF_CONTEXT_MAX).
const CONTEXT_MARKERS: u64 = u64::MAX - 4095;

/// User registers of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    /// The instruction pointer.
    pub instruction: u64,
    /// The stack pointer.
    pub stack: u64,
    /// The frame pointer.
    pub frame: u64,
    /// The link register, where there is one.
    pub link: u64,
}

/// The stacks of a thread at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Its process.
    pub process: u32,
    /// Period of the sample: ns of the clock, or cycles.
    pub weight: u64,
    /// Addresses in the kernel, the innermost first; empty in user mode.
    pub kernel: Vec<u64>,
    /// The user registers; those of the system call when the thread was in the kernel.
    pub registers: Option<Registers>,
    /// The user's stack, from the stack pointer up.
    pub stack: Vec<u8>,
}

/// Parsed records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PerfRecords {
    /// The samples.
    pub samples: Vec<Sample>,
    /// Records lost because the ring was full.
    pub lost: u64,
}

impl PerfRecords {
    /// Parses records. A truncated one ends the input; those of other types are skipped.
    pub fn parse(mut octets: &[u8]) -> PerfRecords {
        let mut records = PerfRecords::default();
        while let Some((kind, body, rest)) = split(octets) {
            let mut reader = Reader(body);
            match kind {
                SAMPLE => records.samples.extend(sample(&mut reader)),
                LOST => records.lost += reader.lost().unwrap_or(0),
                _ => {}
            }
            octets = rest;
        }
        records
    }
}

/// The type and the body of the first record, and what follows it.
fn split(octets: &[u8]) -> Option<(u32, &[u8], &[u8])> {
    let kind = u32::from_ne_bytes(octets.get(..4)?.try_into().ok()?);
    let len = usize::from(u16::from_ne_bytes(octets.get(6..HEADER)?.try_into().ok()?));
    let body = octets.get(HEADER..len)?;
    Some((kind, body, &octets[len..]))
}

fn sample(reader: &mut Reader<'_>) -> Option<Sample> {
    let at = reader.word()?;
    let process = reader.word()? as u32;
    let weight = reader.word()?;
    let count = reader.word()?;
    let mut kernel = Vec::new();
    for _ in 0..count {
        let address = reader.word()?;
        if address < CONTEXT_MARKERS {
            kernel.push(address);
        }
    }
    let registers = match reader.word()? {
        0 => None,
        _ => Some(reader.registers()?),
    };
    let stack = reader.stack()?;
    if kernel.is_empty() && registers.is_none_or(|registers| registers.instruction != at) {
        kernel.push(at);
    }
    Some(Sample {
        process,
        weight,
        kernel,
        registers,
        stack,
    })
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn word(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_ne_bytes(*word))
    }

    /// A lost record: the event's ID, and the number of lost records.
    fn lost(&mut self) -> Option<u64> {
        self.word()?;
        self.word()
    }

    /// The requested registers, by ascending number.
    #[cfg(target_arch = "x86_64")]
    fn registers(&mut self) -> Option<Registers> {
        let (frame, stack, instruction) = (self.word()?, self.word()?, self.word()?);
        Some(Registers {
            instruction,
            stack,
            frame,
            link: 0,
        })
    }

    #[cfg(target_arch = "aarch64")]
    fn registers(&mut self) -> Option<Registers> {
        let (frame, link) = (self.word()?, self.word()?);
        let (stack, instruction) = (self.word()?, self.word()?);
        Some(Registers {
            instruction,
            stack,
            frame,
            link,
        })
    }

    /// The reserved size of the stack, the stack, and its used size.
    fn stack(&mut self) -> Option<Vec<u8>> {
        let room = usize::try_from(self.word()?).ok()?;
        if room == 0 {
            return Some(Vec::new());
        }
        let octets = self.0.get(..room)?;
        self.0 = &self.0[room..];
        let filled = usize::try_from(self.word()?).ok()?.min(room);
        Some(octets[..filled].to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, words: &[u64]) -> Vec<u8> {
        let mut octets = kind.to_ne_bytes().to_vec();
        let len = (HEADER + words.len() * 8) as u16;
        octets.extend([0, 0]);
        octets.extend(len.to_ne_bytes());
        words
            .iter()
            .for_each(|word| octets.extend(word.to_ne_bytes()));
        octets
    }

    /// Instruction, process and thread, period, chain, registers, stack of 16 octets, 8 filled.
    #[cfg(target_arch = "x86_64")]
    const IN_KERNEL: [u64; 14] = [
        0xffff_8000,
        0x9_0000_0007,
        333,
        3,
        u64::MAX - 127,
        0xffff_8000,
        0xffff_9000,
        2,
        11,
        12,
        13,
        16,
        0x55,
        0x66,
    ];

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn sample_has_kernel_and_user_stack() {
        let mut words = IN_KERNEL.to_vec();
        words.push(8);
        let mut octets = record(SAMPLE, &words);
        octets.extend(record(LOST, &[1, 5]));
        octets.extend(record(77, &[1]));
        let records = PerfRecords::parse(&octets);
        assert_eq!(records.lost, 5);
        let [sample] = &records.samples[..] else {
            panic!("one sample");
        };
        assert_eq!((sample.process, sample.weight), (7, 333));
        assert_eq!(sample.kernel, [0xffff_8000, 0xffff_9000]);
        let registers = sample.registers.expect("registers");
        assert_eq!(
            (registers.frame, registers.stack, registers.instruction),
            (11, 12, 13)
        );
        assert_eq!(sample.stack, 0x55u64.to_ne_bytes());
    }

    #[test]
    fn truncated_records_are_skipped() {
        let whole = record(SAMPLE, &[1, 7, 333, 0, 0, 0]);
        assert_eq!(PerfRecords::parse(&whole).samples.len(), 1);
        for len in 0..whole.len() {
            assert_eq!(PerfRecords::parse(&whole[..len]), PerfRecords::default());
        }
        // A chain longer than its record, and a record shorter than its header.
        assert_eq!(
            PerfRecords::parse(&record(SAMPLE, &[1, 7, 333, u64::MAX, 0])),
            PerfRecords::default()
        );
        assert_eq!(
            PerfRecords::parse(&[9, 0, 0, 0, 0, 0, 3, 0, 1, 2]),
            PerfRecords::default()
        );
    }
}
