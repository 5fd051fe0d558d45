//! Clocks and randomness that a test can hold still.

use std::time::Duration;

use domain::time::Timestamp;
use runtime::{Clock, Random};

const START: Timestamp = Timestamp::from_unix_micros(1_790_000_000_000_000);

#[test]
fn clones_of_a_clock_tell_the_same_time() {
    for clock in [Clock::manual(START), Clock::system()] {
        let other = clock.clone();
        let ahead = START.plus_seconds(1_000_000_000);

        clock.follow(ahead);
        clock.advance_seconds(10);

        match &other {
            Clock::Manual(_) => {
                assert_eq!(other.now(), START.plus_seconds(10), "it follows nobody");
            }
            Clock::System { .. } => assert!(other.now() >= ahead),
        }
    }
}

#[test]
fn the_system_clock_follows_backwards_too() {
    let clock = Clock::system();

    clock.follow(Timestamp::from_unix_micros(0));

    assert!(clock.now() < START, "{}", clock.now());
    clock.follow(Timestamp::from_unix_micros(i64::MAX));
    assert!(clock.now() > START, "no time wraps");
}

#[tokio::test(start_paused = true)]
async fn waiting_on_a_manual_clock_ends_when_the_test_has_moved_it_there() {
    let clock = Clock::manual(START);
    let waited = async {
        clock.sleep_until(START.plus_seconds(60)).await;
        clock.now()
    };
    let moved = async {
        for _ in 0..6 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            clock.advance_seconds(10);
        }
    };

    let (woken_at, ()) = tokio::join!(waited, moved);

    assert_eq!(woken_at, START.plus_seconds(60));
}

#[tokio::test(start_paused = true)]
async fn a_time_that_has_passed_is_not_waited_for() {
    let clock = Clock::manual(START);

    clock.sleep_until(START).await;
    clock.sleep_until(START.plus_seconds(-1)).await;
    clock.sleep_until(Timestamp::from_unix_micros(i64::MIN)).await;
}

#[test]
fn a_seeded_sequence_is_shared_by_its_clones_and_goes_on() {
    let (one, same) = (Random::seeded(7), Random::seeded(7));
    let clone = one.clone();

    let drawn = [one.bytes::<8>(), clone.bytes::<8>()];

    assert_ne!(drawn[0], drawn[1]);
    assert_eq!(drawn, [same.bytes::<8>(), same.bytes::<8>()]);
    assert_eq!(format!("{one:?}"), "Random", "nothing of the sequence is shown");
}

#[test]
fn a_number_is_below_its_bound_and_each_of_them_comes() {
    for random in [Random::System, Random::seeded(1)] {
        for bound in [1, 2, 62, 255] {
            let mut seen = [false; 256];
            for _ in 0..20_000 {
                seen[usize::from(random.below(bound))] = true;
            }
            let reached = seen.iter().take_while(|is_seen| **is_seen).count();
            assert_eq!(
                (reached, seen.iter().filter(|is_seen| **is_seen).count()),
                (usize::from(bound), usize::from(bound))
            );
        }
        assert_eq!(random.below(0), 0, "there is no number below zero");
    }
}

#[test]
fn the_systems_randomness_does_not_repeat() {
    let drawn: std::collections::HashSet<[u8; 16]> =
        (0..1_000).map(|_| Random::System.bytes()).collect();

    assert_eq!(drawn.len(), 1_000);
}
