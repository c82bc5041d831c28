//! Offers and meetings: their number is bounded.

use super::*;

fn inbound(place: MeetingPlace) -> (Inbound, Arc<Updates>) {
    let epoll = Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC).expect("an epoll"));
    let updates = Arc::new(Updates::default());
    let boot = BootId::new([6; 16]);
    (
        Inbound::new(boot, place, epoll, Arc::clone(&updates)),
        updates,
    )
}

fn peer(host: [u8; 4], port: u16) -> SocketAddr {
    (host, port).into()
}

#[test]
fn offer_is_made_to_this_host_only_and_once_for_a_while() {
    let (mut inbound, updates) = inbound(MeetingPlace::Namespace);
    // For documentation only (RFC 5737): no host has it.
    inbound.offer_to(peer([192, 0, 2, 1], 9));
    assert!(updates.take().is_none());
    for _ in 0..3 {
        inbound.offer_to(peer([127, 0, 0, 1], 9));
    }
    assert_eq!(updates.take().expect("an offer").offers.len(), 1);
    assert!(inbound.is_in_use());
}

#[test]
fn offers_without_answers_are_bounded() {
    let (mut inbound, _) = inbound(MeetingPlace::Namespace);
    for port in 1..=200 {
        inbound.offer_to(peer([127, 0, 0, 1], port));
    }
    assert_eq!(inbound.offered.len(), MEETINGS_MAX);
    assert_eq!(inbound.silent.len(), REMEMBERED_MAX);
    inbound.forget_old(Instant::now() + QUIET);
    assert!(!inbound.is_in_use() && inbound.silent.is_empty());
}

#[test]
fn meetings_of_one_peer_are_one_and_those_of_many_are_bounded() {
    let (mut inbound, _) = inbound(MeetingPlace::Namespace);
    let mut makers = Vec::new();
    for number in 0..40_u8 {
        let mut nonce = [number; offer::NONCE_LEN];
        // Other processes may run this test.
        nonce[..4].copy_from_slice(&std::process::id().to_ne_bytes());
        let waiting = Waiting::new(&inbound.place, &inbound.boot, &nonce).expect("a name");
        makers.push(waiting);
        let made = offer::encode(&inbound.boot, &nonce);
        let from = Address::Socket(peer([127, 0, 0, 1], u16::from(number / 2) + 1));
        inbound.answer(from, &made);
    }
    assert_eq!(inbound.meetings.len(), MEETINGS_MAX);
    assert!(inbound.rings.is_empty());
}
