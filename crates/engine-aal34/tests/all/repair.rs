//! Missing cells are asked for: each pattern of losses is repaired, or given up within bounds.

use crate::{Cell, cells_of, octets, path, receive_at, start};
use engine::{Instant, Layer, SplitMix64};
use engine_aal34::pdu::sar::SarFormat;
use engine_aal34::{Aal34Config, Adaptation, Cells, CellsConfig, Repair};
use std::time::Duration;

fn config(sar: SarFormat) -> CellsConfig {
    let aal34 = Aal34Config {
        sar,
        mids: sar.mids(),
        repair: Repair::Cells,
        ..Aal34Config::default()
    };
    CellsConfig {
        adaptation: Adaptation::Aal34(aal34),
        packet_max: aal34.packet_limit(),
        ..CellsConfig::default()
    }
}

fn layer(sar: SarFormat) -> Cells {
    Cells::new(config(sar)).expect("it fits together")
}

/// Two ends, and a line that loses cells.
struct Line {
    ends: [Cells; 2],
    now: Instant,
    random: SplitMix64,
    /// One cell of so many is lost.
    loss: u64,
    lost: u64,
    got: Vec<Vec<u8>>,
}

impl Line {
    fn new(sar: SarFormat, seed: u64, loss: u64) -> Line {
        Line {
            ends: [layer(sar), layer(sar)],
            now: start(),
            random: SplitMix64::new(seed),
            loss,
            lost: 0,
            got: Vec::new(),
        }
    }

    /// Carries cells both ways until none is left.
    fn carry(&mut self) {
        loop {
            let mut carried = 0;
            for from in [0, 1] {
                let cells = cells_of(&mut self.ends[from]);
                carried += cells.len();
                for cell in cells {
                    if self.random.below(self.loss) == 0 {
                        self.lost += 1;
                        continue;
                    }
                    let whole = receive_at(&mut self.ends[1 - from], self.now, &cell);
                    assert!(from == 0 || whole.is_empty());
                    self.got.extend(whole);
                }
            }
            if carried == 0 {
                return;
            }
        }
    }

    /// Lets time pass until nothing waits.
    fn settle(&mut self) {
        self.carry();
        for _ in 0..1000 {
            let timeouts = self.ends.iter().filter_map(Layer::poll_timeout);
            let Some(at) = timeouts.min() else { return };
            assert!(at > self.now, "the timeout stays due");
            self.now = at;
            for end in &mut self.ends {
                if end.poll_timeout().is_some_and(|due| due <= at) {
                    end.handle_timeout(at);
                }
            }
            self.carry();
        }
        panic!("something waits for ever");
    }
}

#[test]
fn each_cell_of_a_packet_lost_alone_costs_that_cell_again() {
    for sar in [SarFormat::Standard, SarFormat::Study] {
        let packet_max = config(sar).packet_max;
        let count = packet_max.div_ceil(44) + usize::from(sar == SarFormat::Standard);
        for lost in 0..count.min(usize::from(sar.sns())) {
            let (mut sender, mut receiver) = (layer(sar), layer(sar));
            let packets = [octets(packet_max, 1), octets(packet_max, 2)];
            for packet in &packets {
                sender.send(start(), path(), packet);
            }
            let mut cells = cells_of(&mut sender);
            cells.remove(lost);
            let mut got = receive_all(&mut receiver, &cells);
            let asked = cells_of(&mut receiver);
            receive_all(&mut sender, &asked);
            let again = cells_of(&mut sender);
            assert_eq!(again.len(), 1, "cell {lost}");
            got.extend(receive_all(&mut receiver, &again));
            got.sort();
            let mut expected = packets.to_vec();
            expected.sort();
            assert_eq!(got, expected, "cell {lost}");
            assert_eq!(sender.cell_counters().cells_repeated, 1);
            assert_eq!(receiver.cell_counters().repairs_requested, 1);
        }
    }
}

fn receive_all(layer: &mut Cells, cells: &[Cell]) -> Vec<Vec<u8>> {
    let each = cells.iter();
    each.flat_map(|cell| receive_at(layer, start(), cell))
        .collect()
}

#[test]
fn packets_over_a_lossy_line_arrive_whole_and_once() {
    let mut lost = 0;
    for sar in [SarFormat::Standard, SarFormat::Study] {
        for seed in 0..20 {
            let mut line = Line::new(sar, seed, 50);
            let mut sent = Vec::new();
            for round in 0..20 {
                for number in 0..10 {
                    let len = 100 + line.random.below(590) as usize;
                    let packet = octets(len, seed * 1000 + round * 10 + number);
                    line.ends[0].send(line.now, path(), &packet);
                    sent.push(packet);
                }
                line.carry();
                line.now = line.now + Duration::from_millis(1);
            }
            line.settle();
            lost += line.lost;
            let came = line.got.len();
            line.got.sort();
            line.got.dedup();
            assert_eq!(line.got.len(), came, "none comes twice");
            sent.sort();
            line.got.iter().for_each(|packet| {
                assert!(
                    sent.binary_search(packet).is_ok(),
                    "a packet that was not sent"
                );
            });
            // Three requests and what was asked for may all be lost: once in some ten thousand.
            assert!(came >= 199, "{came} of 200, seed {seed}");
            assert_eq!(line.ends[1].under_way(), 0);
        }
    }
    assert!(lost > 500, "{lost} cells lost prove little");
}

#[test]
fn packet_of_which_nothing_came_is_asked_for_by_the_next_one() {
    let (mut sender, mut receiver) = (layer(SarFormat::Study), layer(SarFormat::Study));
    let packets: Vec<Vec<u8>> = (0..3).map(|seed| octets(300, seed)).collect();
    for packet in &packets {
        sender.send(start(), path(), packet);
    }
    let mut cells = cells_of(&mut sender);
    cells.drain(7..14);
    let mut got = receive_all(&mut receiver, &cells);
    assert_eq!(got, [packets[0].clone(), packets[2].clone()]);
    receive_all(&mut sender, &cells_of(&mut receiver));
    got.extend(receive_all(&mut receiver, &cells_of(&mut sender)));
    assert_eq!(got[2], packets[1]);
}

#[test]
fn window_lets_packets_wait_and_refuses_more_than_it_holds() {
    let mut sender = layer(SarFormat::Study);
    for seed in 0..600 {
        sender.send(start(), path(), &octets(60, seed));
    }
    assert_eq!(cells_of(&mut sender).len(), 2 * 255, "of 512 identifiers");
    assert_eq!(sender.cell_counters().unsendable, 600 - 510);
    let at = sender.poll_timeout().expect("packets are kept");
    assert_eq!(at, start() + Duration::from_millis(200));
    sender.handle_timeout(at);
    assert_eq!(cells_of(&mut sender).len(), 2 * 255, "those that waited");
    sender.handle_timeout(at + Duration::from_millis(200));
    assert_eq!(
        (cells_of(&mut sender).len(), sender.poll_timeout()),
        (0, None)
    );
}

#[test]
fn requests_without_end_are_answered_three_times() {
    let mut sender = layer(SarFormat::Study);
    sender.send(start(), path(), &octets(1408, 1));
    let cells = cells_of(&mut sender);
    let mut receiver = layer(SarFormat::Study);
    receive_all(&mut receiver, &cells[..1]);
    let at = receiver.poll_timeout().expect("cells are missing");
    receiver.handle_timeout(at);
    let request = cells_of(&mut receiver);
    assert_eq!(request.len(), 1);
    for asked in 0..10 {
        receive_all(&mut sender, &request);
        let again = cells_of(&mut sender).len();
        assert_eq!(again, if asked < 3 { 31 } else { 0 });
    }
}
