//! What our engine and its host allocate for messages once they are under way.

use engine_sctp::SctpConfig;
use sctp_peers::stack::{Label, Order, Ours, Stack};
use sctp_peers::sys::{CountingAllocator, allocations};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const LABEL: Label = Label { stream: 0, ppid: 0 };

/// Sends rounds of messages from one end to the other; how many arrived.
fn run(ends: &mut [Ours; 2], message: &[u8], rounds: u64) -> u64 {
    let (mut arrived, mut bytes, mut now) = (0, Vec::with_capacity(message.len()), 1_000_000);
    let [sender, receiver] = ends;
    for _ in 0..rounds {
        now += 100_000;
        while sender.send(now, LABEL, Order::Ordered, message) {}
        while let Some(packets) = sender.poll_packets(now) {
            receiver.handle_packets(now, &packets.octets, packets.len);
        }
        while receiver.receive(now, &mut bytes).is_some() {
            assert_eq!(bytes, message);
            arrived += 1;
            bytes.clear();
        }
        while let Some(packets) = receiver.poll_packets(now) {
            sender.handle_packets(now, &packets.octets, packets.len);
        }
    }
    arrived
}

#[test]
fn messages_in_steady_state_allocate_nothing() {
    for len in [1, 64, 1000] {
        let mut ends = [1, 2].map(|seed| {
            Ours::new(SctpConfig {
                seed,
                ..SctpConfig::default()
            })
        });
        ends[0].connect(0);
        let message = vec![7; len];
        // The window opens, and every list has its length.
        run(&mut ends, &message, 600);
        let before = allocations();
        let arrived = run(&mut ends, &message, 200);
        let made = allocations() - before;
        assert!(arrived > 20_000, "{arrived} messages of {len} bytes");
        // Four packets or more share a call of the wire, whose memory this test allocates.
        assert!(
            made < arrived / 10,
            "{made} allocations for {arrived} messages of {len} bytes"
        );
    }
}
