//! Packets of messages on their way out.

use super::*;
use engine::EntityId;

/// The octets of the packets that `fill` puts into a batch, of a message of `octets`, and what is left of it.
fn packet_of(
    octets: &[u8],
    fill: impl FnOnce(&mut Outgoing, &mut Sending<'_>, &mut Batch),
) -> (Vec<u8>, String) {
    let config = VmtpConfig::default();
    let mut outgoing = Outgoing::new(
        (OutgoingMessage(3), octets.len() as u64),
        4,
        CallNote::default(),
    );
    let mut peer = Peer::default();
    peer.is_valid = true;
    let mut counters = Counters::default();
    let mut batch = Batch::limited(4, 65_507);
    let mut sending = Sending {
        now: Instant::from_nanos(9),
        config: &config,
        counters: &mut counters,
        peer: &mut peer,
    };
    fill(&mut outgoing, &mut sending, &mut batch);
    let mut written = Vec::new();
    for packet in batch.packets() {
        batch.write(packet, &mut written, |_, range, out| {
            out.extend_from_slice(&octets[range.start as usize..range.end as usize]);
        });
    }
    (written, format!("{outgoing:?} {counters:?} {peer:?}"))
}

#[test]
fn plain_message_leaves_as_any_other_of_its_length() {
    let control = [
        Control::request(Control::SKIP_TRANSACTIONS),
        Control::response(0),
    ];
    for (control, len) in control
        .into_iter()
        .flat_map(|control| (0..=20).map(move |len| (control, len)))
    {
        let octets: Vec<u8> = (0..len).map(|at| at as u8 + 1).collect();
        let first = VmtpHeader {
            client: EntityId(0x1234_5678_9abc),
            domain: 1,
            control: control.with_gap_or_group_count(7),
            transaction: 0xffff_fff0,
            server: EntityId(0x4321),
            code: 0x80_0001,
            ..VmtpHeader::default()
        };
        let plain = packet_of(&octets, |outgoing, sending, batch| {
            assert!(outgoing.is_plain());
            let left = outgoing.transmit(sending, &first, batch);
            assert_eq!(left, Left::Everything);
        });
        let general = packet_of(&octets, |outgoing, sending, batch| {
            outgoing.push_bare(sending, &first, 0, batch);
        });
        assert_eq!(plain, general, "{len} octets, {control:?}");
        assert_eq!(plain.0.len(), PACKET_MIN);
    }
}
