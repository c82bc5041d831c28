//! Frames: round trips, and what a hostile peer sends.

use super::*;
use engine::SplitMix64;

const ATTRIBUTES: Attributes = Attributes {
    mode: 0o750,
    mtime_s: -1,
    mtime_ns: 999_999_999,
};

fn sender_frames() -> Vec<SenderFrame<'static>> {
    let path = TreePath::parse(b"a/\xff b").expect("a path");
    vec![
        SenderFrame::Totals { files: 3, bytes: 5 },
        SenderFrame::Folder {
            path: TreePath::default(),
        },
        SenderFrame::File {
            path: path.clone(),
            attributes: ATTRIBUTES,
            size: 1 << 40,
            sha256: None,
        },
        SenderFrame::File {
            path: path.clone(),
            attributes: ATTRIBUTES,
            size: 7,
            sha256: Some([9; SHA256_LEN]),
        },
        SenderFrame::Link {
            path: path.clone(),
            target: b"../c",
        },
        SenderFrame::Content { from: 12 },
        SenderFrame::Data(b"octets"),
        SenderFrame::End {
            sha256: [7; SHA256_LEN],
        },
        SenderFrame::GiveUp { reason: b"gone" },
        SenderFrame::LeftOut {
            path: path.clone(),
            reason: b"a socket",
        },
        SenderFrame::FolderEnd {
            path,
            attributes: ATTRIBUTES,
        },
        SenderFrame::Finish,
    ]
}

fn receiver_frames() -> Vec<ReceiverFrame<'static>> {
    vec![
        ReceiverFrame::WantAll,
        ReceiverFrame::WantRest {
            len: 5,
            sha256: [3; SHA256_LEN],
        },
        ReceiverFrame::Exists,
        ReceiverFrame::Done,
        ReceiverFrame::Refused { reason: b"no" },
        ReceiverFrame::Stored,
        ReceiverFrame::Failed { reason: b"full" },
        ReceiverFrame::Finished { reason: b"" },
    ]
}

#[test]
fn frames_round_trip_and_wait_for_their_last_octet() {
    for frame in sender_frames() {
        let mut octets = Vec::new();
        frame.encode(&mut octets);
        let whole = octets.len();
        assert_eq!(SenderFrame::decode(&octets), Ok((frame, whole)));
        for len in 0..whole {
            let cut = SenderFrame::decode(&octets[..len]);
            assert_eq!(cut, Err(FrameError::Incomplete));
        }
    }
    for frame in receiver_frames() {
        let mut octets = Vec::new();
        frame.encode(&mut octets);
        let whole = octets.len();
        assert_eq!(ReceiverFrame::decode(&octets), Ok((frame, whole)));
        for len in 0..whole {
            let cut = ReceiverFrame::decode(&octets[..len]);
            assert_eq!(cut, Err(FrameError::Incomplete));
        }
    }
}

#[test]
fn lengths_and_paths_of_a_hostile_peer_are_refused_before_their_octets_come() {
    for octets in [
        &[7, 0xff, 0xff, 0xff, 0xff][..],
        &[7, 0, 0, 0, 0],
        &[3, 0xff, 0xff],
        &[3, 0, 2, b'.', b'.'],
        &[3, 0, 4, b'/', b'e', b't', b'c'],
        &[9, 0xff, 0xff],
        &[0],
        &[200],
    ] {
        let read = SenderFrame::decode(octets);
        assert!(matches!(read, Err(FrameError::Invalid(_))), "{octets:?}");
    }
    // Bits beyond permissions, such as set-user-ID, are in no mode.
    let set_user_id = [&[5, 0, 1, b'a', 0x09, 0xff][..], &[0; 12]].concat();
    let read = SenderFrame::decode(&set_user_id);
    assert!(matches!(read, Err(FrameError::Invalid(_))));
}

#[test]
fn mutated_frames_are_decoded_alike_or_refused() {
    let mut good = Vec::new();
    for frame in sender_frames() {
        frame.encode(&mut good);
    }
    let mut count = 0;
    for seed in 0..20_000 {
        let mut random = SplitMix64::new(seed);
        let mut octets = good.clone();
        for _ in 0..=random.below(3) {
            let at = random.below(octets.len() as u64) as usize;
            octets[at] = random.next_u64() as u8;
        }
        // From the first frame on, or from anywhere.
        let start = random.below(octets.len() as u64) as usize * (seed % 2) as usize;
        count += decode_all(&octets[start..]);
    }
    assert!(count > 10_000, "{count}");
}
