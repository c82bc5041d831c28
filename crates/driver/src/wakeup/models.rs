//! Models: each rule of the wake-ups with the real parts, in every order of two threads (loom).
//!
//! Rule 5 has its models beside the store (`sys/ring`). A sleep is modelled by what decides it: a thread that would have gone to sleep must find its eventfd
//! readable once the other thread has ended.

use super::{EventFd, HelperSleep, HelperState, SendPermits, WaitList};
use crate::sync::Mutex;
use crate::sys;
use engine::{AssociationId, Layout};
use loom::thread;
use std::sync::Arc;

/// Rule 1: a user sleeps on the wait list only if the thread that receives will wake it.
#[test]
fn models_sleeper_sees_arrival_or_is_woken() {
    loom::model(|| {
        let shared = Arc::new((Mutex::new(0u64), WaitList::default()));
        let other = Arc::clone(&shared);
        let receiver = thread::spawn(move || {
            let mut arrivals = other.0.lock().unwrap();
            *arrivals += 1;
            other.1.wake_all();
        });
        let eventfd = Arc::new(EventFd::new().unwrap());
        let sleeps = {
            let arrivals = shared.0.lock().unwrap();
            let nothing_new = *arrivals == 0;
            if nothing_new {
                shared.1.add(Arc::clone(&eventfd));
            }
            nothing_new
        };
        receiver.join().unwrap();
        assert!(!sleeps || eventfd.clear(), "a lost wake-up");
    });
}

/// The helper falls asleep while a user leaves work to it by `leave`.
fn work_is_never_missed(sleep: HelperSleep, leave: fn(&HelperState)) {
    loom::model(move || {
        let state = Arc::new(HelperState::new().unwrap());
        let other = Arc::clone(&state);
        let user = thread::spawn(move || leave(&other));
        state.fall_asleep(sleep);
        let sleeps = !state.has_work();
        user.join().unwrap();
        assert!(!sleeps || state.eventfd().clear(), "a lost wake-up");
        assert!(state.has_work());
    });
}

/// Rule 2, with deferred packets.
#[test]
fn models_helper_sees_deferred_flush_or_is_woken() {
    for sleep in [HelperSleep::Idle, HelperSleep::Parked] {
        work_is_never_missed(sleep, HelperState::defer_flush);
    }
}

const LAYOUT: Layout = Layout {
    header: 2,
    payload: 4,
    trailer: 0,
};

/// Rule 2, with a listed store.
#[test]
fn models_helper_sees_listed_store_or_is_woken() {
    let list = |state: &HelperState| {
        let (mut producer, _consumer) = sys::ring(LAYOUT, 16);
        assert!(producer.append_bytes(b"1"));
        let store = producer.note_unsubmitted().unwrap();
        state.note_unsubmitted(AssociationId(0), store);
    };
    work_is_never_missed(HelperSleep::Idle, list);
}

/// Rule 3: the helper sleeps until a timeout that is as a user left it, or that user wakes it.
#[test]
fn models_parked_helper_learns_changed_timeout() {
    loom::model(|| {
        let shared = Arc::new((Mutex::new(None::<u64>), HelperState::new().unwrap()));
        let other = Arc::clone(&shared);
        let user = thread::spawn(move || {
            let mut timeout = other.0.lock().unwrap();
            other.1.on_pump_locked();
            *timeout = Some(5);
        });
        shared.1.fall_asleep(HelperSleep::Parked);
        let sleeps_too_long = match shared.0.try_lock() {
            Ok(timeout) => timeout.is_none(),
            // It ticks once more.
            Err(_) => false,
        };
        user.join().unwrap();
        assert!(!sleeps_too_long || shared.1.eventfd().clear());
    });
}

/// Rule 4: of two circuits that want the only permit, the second gets it when the first releases it,
/// and the first knows whom to notify.
#[test]
fn models_permit_reaches_queued_circuit() {
    loom::model(|| {
        let permits = Arc::new(SendPermits::default());
        let other = Arc::clone(&permits);
        let [first, second] = [1, 2].map(AssociationId);
        assert!(permits.acquire_or_queue(first));
        let user = thread::spawn(move || other.acquire_or_queue(second));
        permits.release();
        let notified = match permits.has_unnotified() {
            true => permits.take_unnotified(),
            false => Vec::new(),
        };
        let acquired = user.join().unwrap();
        assert_eq!(notified.contains(&second), !acquired);
        assert!(acquired || permits.claim(second));
        permits.release();
        assert!(!permits.has_waiters() && permits.acquire_or_queue(first));
    });
}

/// Rule 4: a turn ends while its last bytes are acknowledged. The permit reaches the circuit that waits, and the first one
/// may go on behind it.
#[test]
fn models_permit_of_a_turn_that_is_over_reaches_queued_circuit() {
    const TURN: [u8; 16] = [1; 16];
    loom::model(|| {
        let [first, second] = [1, 2].map(AssociationId);
        let pool = sys::StorePool::new(LAYOUT, TURN.len());
        let (mut producer, mut consumer) = pool.store(first, LAYOUT);
        assert!(producer.append_bytes(&TURN) && !producer.append_bytes(&TURN[..1]));
        for half in [0..8, 8..16] {
            consumer.release(half);
            assert!(producer.append_bytes(&TURN[8..]));
        }
        assert!(!pool.permits.acquire_or_queue(second));
        let acknowledged = thread::spawn(move || {
            consumer.release(16..32);
            consumer
        });
        let was_early = producer.append_bytes(&TURN[..1]);
        let _consumer = acknowledged.join().unwrap();
        assert!(pool.permits.claim(second), "a lost permit");
        pool.permits.release();
        assert!(was_early || producer.append_bytes(&TURN[..1]));
    });
}
