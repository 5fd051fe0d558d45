//! Sequences of the model under what must not change their result: the processor answers every
//! change of a customer's credit with an error, although it made the change, and the database is
//! restored from a copy that was made three hours before a step.
//!
//! `scripts/economics-test` runs more of them than an ordinary run.

use serde_json::{Value, json};
use store::testing::StoreCopy;
use test_service::start::HOURS_MAX;

use super::compare::Comparison;
use super::scenario::{Catalogue, Scenario, vectors};
use super::side::{is_long, made, seed};
use super::world::World;

const HOUR_S: i64 = 3_600;
/// Random sequences, besides the scenarios, in a short and in a full run, and in a long one.
const SEQUENCES: (usize, usize) = (2, 6);
const SEQUENCES_LONG: usize = 40;
/// The most time that a job waits before it is tried again, and more.
const RETRIED_AFTER_S: i64 = 30 * HOUR_S;
/// Steps whose effect is at the processor: what else a restore loses, such as calls, is lost.
const RESTORED: [&str; 8] =
    ["subscribe", "buy_pack", "change_plan", "refund", "dispute", "undo", "cancel", "pay_open"];

/// Scenarios of the model in which money goes back, and random sequences.
fn sequences(catalogue: &Catalogue, scenarios: Vec<Scenario>) -> Vec<Scenario> {
    let ordinary = store::testing::samples(SEQUENCES.0, SEQUENCES.1);
    let count = if is_long() { SEQUENCES_LONG } else { ordinary };
    let every = if is_long() { 1 } else { store::testing::samples(6, 2) };
    let goes_back = |scenario: &Scenario| {
        scenario.steps.iter().any(|step| matches!(step.what(), "refund" | "dispute"))
    };
    let mut all: Vec<Scenario> = scenarios.into_iter().filter(goes_back).step_by(every).collect();
    all.extend(made("random", seed() * 10 + 7, count, catalogue));
    all.extend(made("attacks", seed() * 10 + 8, count, catalogue));
    all
}

impl World {
    /// The changes of the customer's credit that this service asked for.
    async fn changes_of_credit(&mut self) -> Vec<Value> {
        let Some(payer) = self.payer().await else { return Vec::new() };
        let path = format!("customers/{payer}/balance_transactions");
        let all = self.all_at_processor(&path, "").await;
        all.into_iter().filter(|made| made["type"] == "adjustment").collect()
    }

    /// Copies the database of the stopped service.
    async fn copy(&mut self) -> StoreCopy {
        self.app.stop_service().await;
        let copy = self.app.database().copy().await;
        self.start_again().await;
        copy
    }

    /// Replaces the database, and does what operators do after a restore.
    async fn restore(&mut self, copy: &StoreCopy) {
        self.app.stop_service().await;
        self.app.database().restore(copy).await;
        self.start_again().await;
        let report = self.app.running().reconcile(HOURS_MAX).await.unwrap();
        assert_eq!((report.failed, report.unmatched), (0, 0), "{report:?}");
        let synced = self.client.post("/v1/billing/sync-card", &json!({})).await;
        assert_eq!(synced.status, 200, "{}", synced.text());
        self.settle().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sequences_agree_with_the_model_though_changes_of_credit_are_answered_with_errors() {
    let (catalogue, scenarios) = vectors();
    let mut changed = 0;
    for scenario in sequences(&catalogue, scenarios) {
        let database = store::testing::store().await;
        let mut world = Box::pin(World::begin(database, &catalogue, &scenario)).await;
        let error = json!({
            "kind": "error_after", "method": "POST", "path": "customers/{id}/balance_transactions",
            "times": 1_000_000,
        });
        world.app.processor_fault(&error).await;

        let told = super::play::steps(&mut world, &scenario).await;
        assert!(told.is_empty(), "differs from the model:\n{told}");

        // Days later the keys have expired, and an operator retries what was given up.
        let before = world.changes_of_credit().await;
        changed += before.len();
        let later = world.now() + RETRIED_AFTER_S;
        world.move_to(later).await;
        world.app.mend_processor().await;
        world.app.staff(json!({"command": "retry_jobs"})).await;
        world.settle().await;
        let after = world.changes_of_credit().await;
        assert_eq!(&after[..before.len()], before, "{}", scenario.name);
        for made in &after {
            let at = made["created"].as_i64().unwrap() * 1_000_000;
            let day = domain::time::Timestamp::from_unix_micros(at).day();
            let differing = world.app.running().compare_day(day).await.unwrap();
            assert_eq!(differing, 0, "{}: {made}", scenario.name);
        }
        Box::pin(world.end()).await;
    }
    assert!(changed > 0, "no sequence changed the customer's credit");
}

/// The steps after copies three hours before them can be restored: at most one of each kind.
fn restored_steps(scenario: &Scenario) -> Vec<usize> {
    let mut kinds = Vec::new();
    let mut chosen = Vec::new();
    let (mut is_deaf, mut before) = (false, 0);
    for (index, step) in scenario.steps.iter().enumerate() {
        is_deaf = match step.what() {
            "hold_events" => true,
            "deliver" => false,
            _ => is_deaf,
        };
        let begins = step.event["since"].as_i64().unwrap_or(step.at);
        let is_apart = begins - 3 * HOUR_S > before;
        before = step.at;
        let kind = step.what().to_owned();
        if !is_deaf && is_apart && RESTORED.contains(&step.what()) && !kinds.contains(&kind) {
            kinds.push(kind);
            chosen.push(index);
        }
    }
    chosen
}

/// Plays the sequence with a restore after each chosen step; the first difference from the model.
async fn play_restored(world: &mut World, scenario: &Scenario, chosen: &[usize]) -> Option<String> {
    let mut comparison = Comparison::default();
    for (index, step) in scenario.steps.iter().enumerate() {
        let copy = if chosen.contains(&index) {
            let begins = step.event["since"].as_i64().unwrap_or(step.at);
            world.move_to(begins - 3 * HOUR_S).await;
            Some(Box::pin(world.copy()).await)
        } else {
            None
        };
        let answer = Box::pin(world.play(step)).await;
        if let Some(copy) = &copy {
            Box::pin(world.restore(copy)).await;
        }
        let seen = Box::pin(world.look()).await;
        let differences = comparison.of(&step.expect, &seen, world.deaf);
        if answer != step.answer || !differences.is_empty() {
            let name = &scenario.name;
            let was = copy.map_or("", |_| ", restored");
            return Some(format!(
                "{name}, step {}{was}: {}: {answer} for {}, {differences:?}",
                index + 1,
                step.event,
                step.answer
            ));
        }
    }
    None
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sequences_agree_with_the_model_after_the_database_was_restored() {
    let (catalogue, scenarios) = vectors();
    let mut restores = 0;
    for scenario in sequences(&catalogue, scenarios) {
        let chosen = restored_steps(&scenario);
        restores += chosen.len();
        let database = store::testing::store().await;
        let mut world = Box::pin(World::begin(database, &catalogue, &scenario)).await;
        let told = Box::pin(play_restored(&mut world, &scenario, &chosen)).await;
        assert_eq!(told, None);
        Box::pin(world.end()).await;
    }
    assert!(restores > 0, "no sequence has a step after which the database was restored");
}
