//! Numbers of accounts, one for each platform.

use domain::per_platform::PerPlatform;
use domain::platform::{Platform, PlatformDeclaration, PlatformNameProblem};
use domain::slot::{AccountAllowances, AccountCounts};
use proptest::prelude::*;

fn counts(numbers: [u32; 4]) -> AccountCounts {
    let mut numbers = numbers.into_iter().map(i64::from);
    AccountCounts::each(|_| numbers.next().unwrap())
}

proptest! {
    #[test]
    fn counts_are_read_back_as_they_are_stored(numbers: [u32; 4]) {
        let counts = counts(numbers);

        prop_assert_eq!(counts.to_string().parse(), Ok(counts));
    }

    #[test]
    fn sums_and_minima_are_taken_platform_by_platform(one: [u32; 4], other: [u32; 4]) {
        let (first, second) = (counts(one), counts(other));
        let (sum, least) = (first.plus(&second), first.least(&second));

        for ((platform, one), other) in Platform::all().into_iter().zip(one).zip(other) {
            prop_assert_eq!(sum.on(platform), i64::from(one) + i64::from(other));
            prop_assert_eq!(least.on(platform), i64::from(one.min(other)));
        }
        prop_assert_eq!(&sum, &second.plus(&first));
        prop_assert_eq!(&least, &second.least(&first));
        prop_assert_eq!(&first.plus(&AccountCounts::default()), &first);
        prop_assert_eq!(first == second, one == other);
    }

    #[test]
    fn values_stay_in_the_order_of_the_platforms_however_they_come(order in Just([0_usize, 1, 2, 3]).prop_shuffle()) {
        let all = Platform::all();

        let values: PerPlatform<usize> = order.iter().map(|place| (all[*place], *place)).collect();

        prop_assert_eq!(values.iter().map(|(_, place)| *place).collect::<Vec<_>>(), [0, 1, 2, 3]);
        let json = serde_json::to_string(&values).unwrap();
        prop_assert_eq!(serde_json::from_str::<PerPlatform<usize>>(&json).unwrap(), values);
    }

    #[test]
    fn no_text_makes_a_parser_of_counts_panic(text in any::<String>(), near in "[a-z_=,0-9+-]{0,40}") {
        for written in [text, near] {
            if let Ok(counts) = written.parse::<AccountCounts>() {
                prop_assert!(Platform::all().into_iter().all(|platform| counts.on(platform) >= 0));
            }
        }
    }
}

#[test]
fn a_platform_that_is_not_named_has_none_and_equals_one_that_has_zero() {
    let zero = AccountCounts::each(|_| 0);

    assert_eq!(zero, AccountCounts::default());
    assert_eq!(AccountCounts::default().on(Platform::BETA), 0);
    assert_eq!("platform_beta=0".parse(), Ok(zero));
    assert_ne!("platform_beta=1".parse(), Ok(AccountCounts::default()));
    assert_eq!(AccountAllowances::default().included, AccountCounts::default());
    assert_eq!(AccountAllowances::of_each(2).included, AccountCounts::each(|_| 2));
}

#[test]
fn adding_stops_at_the_largest_number() {
    let mut counts = AccountCounts::default();

    counts.add(Platform::ALPHA, 3);
    counts.add(Platform::ALPHA, -1);
    counts.add(Platform::BETA, i64::MAX);
    counts.add(Platform::BETA, 1);

    assert_eq!((counts.on(Platform::ALPHA), counts.on(Platform::BETA)), (2, i64::MAX));
    assert_eq!(counts.plus(&counts).on(Platform::BETA), i64::MAX);
}

/// Rows of a platform that the configuration no longer declares can still be listed.
#[test]
fn a_platform_that_only_the_database_knows_keeps_its_number_behind_the_others() {
    let counts: AccountCounts = "forgotten_one=3,platform_delta=1".parse().unwrap();

    let forgotten = Platform::from_stored("forgotten_one").unwrap();
    assert_eq!((counts.on(forgotten), counts.on(Platform::DELTA)), (3, 1));
    assert_eq!(counts.to_string(), "platform_delta=1,forgotten_one=3");
    assert!("forgotten_one".parse::<Platform>().is_err(), "it is offered nowhere");
    assert!(!forgotten.sells_slots());
    assert_ne!(counts, "platform_delta=1".parse().unwrap());
}

#[test]
fn what_is_said_of_counts_that_cannot_be_read_shows_how_they_are_written() {
    for text in
        ["platform_alpha=4294967296", "platform_alpha=1.5", "platform_alpha= 1", "=1", "A=1"]
    {
        let refused = text.parse::<AccountCounts>().unwrap_err();
        assert_eq!(refused.to_string(), "expected platform_alpha=1,platform_beta=1", "{text}");
    }
}

#[test]
fn values_are_found_changed_and_counted() {
    let mut values = PerPlatform::default();
    assert!(values.is_empty());
    assert_eq!(values.get_mut(Platform::ALPHA), None);

    values.insert(Platform::DELTA, 1);
    values.insert(Platform::ALPHA, 2);
    *values.get_mut(Platform::DELTA).unwrap() += 10;
    for value in values.values_mut() {
        *value *= 2;
    }

    assert!(!values.is_empty());
    let all: Vec<(&str, i32)> = values.iter().map(|(on, value)| (on.as_str(), *value)).collect();
    assert_eq!(all, [("platform_alpha", 4), ("platform_delta", 22)]);
    let last = PerPlatform::from_iter([(Platform::BETA, 1), (Platform::BETA, 2)]);
    assert_eq!((last.get(Platform::BETA), last.iter().len()), (Some(&2), 1));
}

#[test]
fn a_platform_named_twice_in_json_is_refused_with_its_name() {
    let said = |json: &str| serde_json::from_str::<PerPlatform<u8>>(json).unwrap_err().to_string();

    let twice = said(r#"{"platform_beta":1,"platform_beta":2}"#);
    assert!(twice.starts_with("must name platform_beta once"), "{twice}");
    let list = said("[]");
    assert!(list.contains("an object whose members are names of platforms"), "{list}");
    let unknown = said(r#"{"omega":1}"#);
    assert!(unknown.contains(Platform::expected()), "{unknown}");
}

#[test]
fn platforms_are_the_same_under_both_names_and_sort_by_the_stored_one() {
    use std::collections::{BTreeSet, HashSet};

    for platform in Platform::BUILT_IN {
        assert_eq!(Platform::from_stored(platform.stored_name()), Ok(platform));
        assert_eq!(platform.as_str().parse(), Ok(platform));
        assert_eq!(format!("{platform:?}"), platform.to_string());
    }
    let twice = [Platform::BUILT_IN, Platform::BUILT_IN].concat();
    assert_eq!(twice.iter().collect::<HashSet<_>>().len(), 4);
    let sorted: BTreeSet<Platform> = twice.into_iter().collect();
    assert!(sorted.iter().map(|platform| platform.stored_name()).is_sorted());
    assert_eq!(Platform::BUILT_IN.map(Platform::sells_slots), [true, true, false, false]);
}

/// A refused declaration changes nothing: the platforms of the process are those before.
#[test]
fn a_refused_declaration_says_why_and_leaves_the_platforms_alone() {
    let declared = |name: &str, stored: &str| PlatformDeclaration {
        name: name.to_owned(),
        stored_name: stored.to_owned(),
        sells_slots: true,
    };

    for (declarations, problem) in [
        (
            vec![declared("Mine", "mine")],
            "\"Mine\" must be 1 to 32 lowercase letters, digits and `_`, starting with a letter",
        ),
        (
            vec![declared("mine", "")],
            "\"\" must be 1 to 32 lowercase letters, digits and `_`, starting with a letter",
        ),
        (vec![declared("a", "a"), declared("a", "a")], "\"a\" is the name of two platforms"),
        (vec![declared("a", "b"), declared("c", "b")], "\"b\" is the name of two platforms"),
    ] {
        let refused: PlatformNameProblem = Platform::declare(&declarations).unwrap_err();
        assert_eq!(refused.to_string(), problem);
    }
    assert_eq!(Platform::all(), Platform::BUILT_IN);
}
