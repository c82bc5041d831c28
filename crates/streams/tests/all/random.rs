//! Random streams under random calls: nothing is lost, doubled or out of order within its band,
//! whatever is pushed, popped and blocked; the same seed gives the same trace.

use crate::kit::marks;
use streams::modules::{Buffer, Meter, Pass};
use streams::{Error, Hysteresis, Module, Priority, Runtime, StreamId, Want};

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }
}

struct Run {
    random: Random,
    runtime: Runtime,
    ends: [StreamId; 2],
    pushed: [Vec<bool>; 2],
    sent: [[u32; 3]; 2],
    received: [[u32; 3]; 2],
    trace: Vec<(u8, u32)>,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut random = Random(seed);
        let all = [Hysteresis::Full, Hysteresis::Wake, Hysteresis::Off];
        let mut runtime = Runtime::new(all[random.below(3) as usize]);
        let (a, b) = runtime.pipe();
        Run {
            random,
            runtime,
            ends: [a, b],
            pushed: [Vec::new(), Vec::new()],
            sent: [[0; 3]; 2],
            received: [[0; 3]; 2],
            trace: Vec::new(),
        }
    }

    fn step(&mut self) {
        let end = self.random.below(2) as usize;
        match self.random.below(12) {
            0..5 => self.send(end),
            5..8 => self.receive(end),
            8 => self.push(end),
            9 => self.pop(end),
            _ => {
                let budget = self.random.below(4) as usize;
                self.runtime.run(budget);
            }
        }
    }

    fn send(&mut self, end: usize) {
        let band = self.random.below(3) as u8;
        let number = self.sent[end][band as usize];
        let mut data = number.to_be_bytes().to_vec();
        data.resize(4 + self.random.below(900) as usize, band);
        match self
            .runtime
            .put_message(self.ends[end], None, Some(&data), Priority::Band(band))
        {
            Ok(()) => self.sent[end][band as usize] += 1,
            Err(Error::WouldBlock) => self.trace.push((9, number)),
            Err(error) => panic!("{error}"),
        }
    }

    fn receive(&mut self, end: usize) {
        let mut data = [0; 1024];
        match self
            .runtime
            .get_message(self.ends[end], &mut [], &mut data, Want::Any)
        {
            Ok(got) => {
                let Priority::Band(band) = got.priority else {
                    panic!("nothing of high priority was sent")
                };
                let number = u32::from_be_bytes(data[..4].try_into().unwrap());
                assert_eq!(
                    number, self.received[end][band as usize],
                    "order within the band"
                );
                self.received[end][band as usize] += 1;
                self.trace.push((band, number));
            }
            Err(Error::WouldBlock) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn push(&mut self, end: usize) {
        if self.pushed[end].len() >= 4 {
            return;
        }
        let high = 1 + self.random.below(3000) as usize;
        let low = self.random.below(high as u64 + 1) as usize;
        let (module, queues): (Box<dyn Module>, bool) = match self.random.below(4) {
            0 => (Box::new(Pass), false),
            1 => (Box::new(Meter::default()), false),
            2 => (Box::new(Buffer::new(marks(high, low))), true),
            _ => (Box::new(Buffer::deferring(marks(high, low))), true),
        };
        self.runtime.push(self.ends[end], module).unwrap();
        self.pushed[end].push(queues);
    }

    /// Pops a module. What its queues hold is dropped, so they are emptied first if they can be.
    fn pop(&mut self, end: usize) {
        match self.pushed[end].last() {
            None => return,
            Some(true) => self.drain(),
            Some(false) => {}
        }
        self.runtime.pop(self.ends[end]).unwrap();
        self.pushed[end].pop();
    }

    fn drain(&mut self) {
        for _ in 0..100_000 {
            let before = self.trace.len();
            let ran = self.runtime.run(1000);
            self.receive(0);
            self.receive(1);
            if ran == 0 && before == self.trace.len() {
                return;
            }
        }
        panic!("a procedure runs for ever");
    }
}

fn run(seed: u64) -> Vec<(u8, u32)> {
    let mut run = Run::new(seed);
    for _ in 0..400 {
        run.step();
    }
    run.drain();
    assert_eq!(
        run.sent[0], run.received[1],
        "seed {seed}: nothing is lost from a to b"
    );
    assert_eq!(
        run.sent[1], run.received[0],
        "seed {seed}: nothing is lost from b to a"
    );
    for end in run.ends {
        assert!(
            run.runtime.poll(end).unwrap().output,
            "seed {seed}: room again"
        );
    }
    run.trace
}

#[test]
fn nothing_is_lost_doubled_or_reordered_by_random_calls() {
    for seed in 0..2000 {
        run(seed);
    }
}

#[test]
fn same_seed_gives_the_same_trace() {
    for seed in [3, 77, 1500] {
        assert_eq!(run(seed), run(seed));
    }
}
