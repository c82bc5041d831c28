//! The search for a path's MTU, against paths that answer what they carry.

use super::*;

/// Answers probes as a path that carries packets of `path` octets; how many were lost.
fn search(mtu: &mut PathMtu, path: usize) -> usize {
    let mut losses = 0;
    while let Some(probe) = mtu.probe().copied() {
        mtu.note_sent(Instant::from_nanos(0), 10);
        if probe.len as usize <= path {
            assert!(mtu.handle_answer(10));
            continue;
        }
        assert!(!mtu.handle_answer(12), "another one's");
        if probe.is_accompanied {
            assert!(mtu.handle_short_answer(11));
        }
        mtu.handle_loss();
        losses += 1;
    }
    losses
}

#[test]
fn longest_packet_is_asked_first() {
    let mut mtu = PathMtu::probed(1472);
    assert_eq!((mtu.len(), mtu.is_known()), (1200, false));
    mtu.begin();
    assert_eq!(search(&mut mtu, 1472), 0);
    assert_eq!((mtu.len(), mtu.is_known()), (1472, true));
    assert!(!mtu.may_rise());
}

#[test]
fn packets_longer_than_a_jumbo_frame_are_asked_for_when_they_are_of_use() {
    let mut mtu = PathMtu::probed(65_504);
    mtu.begin();
    let mut asked = Vec::new();
    for unsent in [0, 8999, 16_412, 20_000, 32_000, 33_000, 500_000] {
        mtu.want(unsent);
        asked.extend(mtu.probe().map(|probe| probe.len));
        assert_eq!(search(&mut mtu, 65_504), 0);
        assert!(!mtu.may_rise());
    }
    assert_eq!(asked, [9000, 32_768, 65_504]);
    assert_eq!(mtu.len(), 65_504);
}

#[test]
fn path_that_is_known_as_narrow_is_not_asked_for_what_is_wanted_later() {
    let mut mtu = PathMtu::probed(65_504);
    mtu.begin();
    search(&mut mtu, 1472);
    let len = mtu.len();
    mtu.want(60_000);
    assert!(mtu.probe().is_none());
    mtu.raise();
    assert_eq!(mtu.probe().map(|probe| probe.len), Some(65_504));
    search(&mut mtu, 1472);
    assert_eq!(mtu.len(), len);
}

#[test]
fn search_ends_close_below_what_the_path_carries() {
    for max in [600, 1200, 1300, 1472, 8972, 65_507] {
        for path in (1200..max.min(9000)).step_by(52) {
            let mut mtu = PathMtu::probed(max);
            mtu.begin();
            let losses = search(&mut mtu, path);
            let len = mtu.len();
            assert!(len <= path.max(max.min(1200)), "{max} {path}: {len}");
            assert!(path.min(max) < len + 20, "{max} {path}: {len}");
            assert!(losses <= 4 * 16, "{max} {path}: {losses} lost");
        }
    }
}

#[test]
fn path_that_is_down_is_not_taken_for_a_narrow_one() {
    let mut mtu = PathMtu::probed(1472);
    mtu.begin();
    for _ in 0..100 {
        mtu.note_sent(Instant::from_nanos(0), 10);
        assert_eq!(mtu.handle_loss(), ProbeLoss::Repeat);
    }
    assert_eq!(search(&mut mtu, 1472), 0);
    assert_eq!(mtu.len(), 1472);
}

#[test]
fn black_hole_leaves_the_base_and_what_is_above_is_searched() {
    let mut mtu = PathMtu::probed(1472);
    mtu.begin();
    search(&mut mtu, 1472);
    mtu.doubt();
    assert_eq!(search(&mut mtu, 1472), 0, "it still carries them");
    assert_eq!(mtu.len(), 1472);
    mtu.doubt();
    let losses = search(&mut mtu, 1372);
    assert!(losses >= usize::from(PROBES_MAX));
    assert!((1352..=1372).contains(&mtu.len()), "{}", mtu.len());
    assert!(mtu.may_rise());
    mtu.raise();
    search(&mut mtu, 1472);
    assert_eq!(mtu.len(), 1472, "the path is wide again");
}

#[test]
fn base_that_is_lost_leaves_the_least() {
    let mut mtu = PathMtu::probed(1472);
    mtu.begin();
    search(&mut mtu, 1200);
    mtu.doubt();
    search(&mut mtu, 548);
    assert_eq!(mtu.len(), 548);
    mtu.doubt();
    assert!(mtu.probe().is_none(), "every path carries that");
}

#[test]
fn reports_are_asked_and_never_believed() {
    let mut mtu = PathMtu::probed(1472);
    mtu.suggest(1452);
    mtu.begin();
    assert_eq!(mtu.probe().map(|probe| probe.len), Some(1452));
    search(&mut mtu, 1472);
    assert_eq!(mtu.len(), 1472, "and what is above");
    for lie in [0, 68, 548, 1200, 1400] {
        mtu.suggest(lie);
        assert_eq!(mtu.probe().map(|probe| probe.len), Some(1472), "{lie}");
        search(&mut mtu, 1472);
        assert_eq!(mtu.len(), 1472, "{lie}");
    }
    mtu.suggest(9000);
    assert!(mtu.probe().is_none(), "longer than is of use");
    mtu.suggest(1400);
    search(&mut mtu, 1400);
    assert_eq!(mtu.len(), 1400, "what was said is asked before steps");
}

#[test]
fn fixed_length_asks_nothing() {
    let mut mtu = PathMtu::fixed(1472);
    mtu.begin();
    mtu.doubt();
    mtu.suggest(600);
    mtu.raise();
    assert!(mtu.probe().is_none());
    assert_eq!(mtu.len(), 1472);
}
