//! Random sequences: the model generates them with their results, and the service runs them.
//!
//! `scripts/economics-test` runs more of them than an ordinary run.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use serde_json::{Value, json};
use store::DatabaseKind;

use super::play::play;
use super::scenario::{Catalogue, Scenario, reference, vectors};

/// The numbers of sequences in a short and in a full run, for each part.
const SEQUENCES: (usize, usize) = (2, 10);
/// The average number of steps in a sequence.
const STEPS_EACH: usize = 14;
/// How often a failing sequence is run again at most, to find which of its steps matter.
const SHRINKS_MAX: usize = 60;

/// The approximate number of steps to run on each database, if set.
const STEPS: &str = "CREATOR_GATEWAY_TEST_ECONOMICS_STEPS";
/// The seed of the sequences.
const SEED: &str = "CREATOR_GATEWAY_TEST_ECONOMICS_SEED";

fn number_of(name: &str) -> Option<usize> {
    std::env::var(name).ok().map(|value| value.parse().unwrap())
}

/// The seed of the sequences to run.
pub(super) fn seed() -> usize {
    number_of(SEED).unwrap_or(1)
}

/// Whether more than an ordinary run is requested.
pub(super) fn is_long() -> bool {
    number_of(STEPS).is_some()
}

/// Runs `side.py` and reads the sequences that it prints, or the message with which it refuses.
fn side(
    arguments: &[String],
    input: &Value,
    catalogue: &Catalogue,
) -> Result<Vec<Scenario>, String> {
    let mut program = Command::new("python3");
    program.arg("-B").arg(reference().join("side.py")).args(arguments);
    program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = program.spawn().unwrap();
    running.stdin.take().unwrap().write_all(input.to_string().as_bytes()).unwrap();
    let done = running.wait_with_output().unwrap();
    if !done.status.success() {
        return Err(String::from_utf8_lossy(&done.stderr).into_owned());
    }
    let mut sequences: Vec<Value> = Vec::new();
    for line in String::from_utf8(done.stdout).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        if line["name"].is_string() {
            sequences.push(line);
            sequences.last_mut().unwrap()["steps"] = json!([]);
        } else {
            let steps = &mut sequences.last_mut().unwrap()["steps"];
            steps.as_array_mut().unwrap().push(line);
        }
    }
    Ok(sequences.iter().map(|one| Scenario::read(one, catalogue)).collect())
}

/// A scenario of the model with other events, and the model's results; `None` if they do not fit
/// together.
pub(super) fn replayed(input: &Value, catalogue: &Catalogue) -> Option<Scenario> {
    side(&["scenario".to_owned()], input, catalogue).ok()?.pop()
}

/// Generates `count` sequences of a kind.
pub(super) fn made(kind: &str, seed: usize, count: usize, catalogue: &Catalogue) -> Vec<Scenario> {
    let arguments = [kind.to_owned(), seed.to_string(), count.to_string()];
    side(&arguments, &Value::Null, catalogue).unwrap()
}

/// The sequence without some of its events, with the model's new results; `None` if the model
/// refuses it.
fn without(
    scenario: &Scenario,
    dropped: &dyn Fn(usize) -> bool,
    catalogue: &Catalogue,
) -> Option<Scenario> {
    let events = scenario.events().into_iter().enumerate();
    let events: Vec<Value> =
        events.filter(|(index, _)| !dropped(*index)).map(|(_, one)| one).collect();
    let input = json!({"name": scenario.name, "retries": scenario.retries, "events": events});
    let shorter = side(&["play".to_owned()], &input, catalogue).ok()?.pop()?;
    Some(Scenario { selling: scenario.selling, ..shorter })
}

/// The shortest sequence found that still differs, with the differences.
async fn shrunk(scenario: &Scenario, told: String, catalogue: &Catalogue) -> String {
    let (mut shortest, mut told) = (scenario.clone(), told);
    let mut tries = 0;
    let mut index = shortest.steps.len();
    while index > 0 && tries < SHRINKS_MAX {
        index -= 1;
        let Some(shorter) = without(&shortest, &|other| other == index, catalogue) else {
            continue;
        };
        tries += 1;
        let differs = play(store::testing::store().await, catalogue, &shorter).await;
        if !differs.is_empty() {
            (shortest, told) = (shorter, differs);
            index = index.min(shortest.steps.len());
        }
    }
    let events: Vec<String> = shortest.events().iter().map(Value::to_string).collect();
    format!("{told}the events, with retries after {:?}:\n{}\n", shortest.retries, events.join("\n"))
}

/// Runs sequences, two at a time, each on its own database; returns the first one that differs.
pub(super) async fn all(
    scenarios: Vec<Scenario>,
    catalogue: &Catalogue,
) -> Option<(Scenario, String)> {
    let waiting = Mutex::new(scenarios.into_iter());
    let found = Mutex::new(None);
    let worker = async || {
        while found.lock().unwrap().is_none() {
            let Some(scenario) = waiting.lock().unwrap().next() else { return };
            let told = play(store::testing::store().await, catalogue, &scenario).await;
            if !told.is_empty() {
                *found.lock().unwrap() = Some((scenario, told));
            }
        }
    };
    tokio::join!(worker(), worker());
    found.lock().unwrap().take()
}

/// The sequences of a kind of database differ, so that a run on both plays more of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_sequences_agree_with_the_model() {
    let (catalogue, _) = vectors();
    let parts = match store::testing::chosen() {
        DatabaseKind::Sqlite => [1, 2],
        DatabaseKind::Postgres => [3, 4],
    };
    let count = match number_of(STEPS) {
        Some(steps) => steps / 2 / STEPS_EACH + 1,
        None => store::testing::samples(SEQUENCES.0, SEQUENCES.1),
    };
    for part in parts {
        let scenarios = made("random", seed() * 10 + part, count, &catalogue);
        assert_eq!(scenarios.len(), count);
        if let Some((scenario, told)) = all(scenarios, &catalogue).await {
            let told = shrunk(&scenario, told, &catalogue).await;
            panic!("differs from the model:\n{told}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn months_granted_late_pay_a_debt_in_their_order() {
    let (catalogue, _) = vectors();
    // A refund left a debt. When events arrive again, two months have been paid.
    let events = json!([
        {"t": 1_807_859_174, "do": "subscribe", "plan": "plan_studio", "off": 20, "slots": {"beta": 1}},
        {"t": 1_811_025_391, "do": "change_plan", "plan": "plan_team"},
        {"t": 1_814_985_938, "do": "spend", "n": 100_000},
        {"t": 1_814_985_968, "do": "hold_events"},
        {"t": 1_817_287_978, "do": "dispute", "id": "in_3", "ref": "d1"},
        {"t": 1_819_404_798, "do": "deliver"},
    ]);
    let input = json!({"retries": [259_200, 691_200, 1_296_000], "events": events});
    let scenario = side(&["play".to_owned()], &input, &catalogue).unwrap().pop().unwrap();
    assert!(scenario.steps[4].expect["debt"].as_i64() > Some(0));

    let database = store::testing::store().await;
    let url = database.options().url.clone();
    let told = play(database, &catalogue, &scenario).await;
    assert!(told.is_empty(), "differs from the model, on {url}:\n{told}");
}

#[test]
fn the_same_seed_generates_the_same_sequences() {
    let (catalogue, _) = vectors();
    let events = |seed| -> Vec<Vec<Value>> {
        made("random", seed, 3, &catalogue).iter().map(Scenario::events).collect()
    };

    assert_eq!(events(7), events(7));
    assert_ne!(events(7), events(8));
}
