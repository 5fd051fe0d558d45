//! Runs a whole sequence and reports the differences from the model.

use std::fmt::Write as _;

use store::testing::TestStore;

use super::compare::{Comparison, Difference};
use super::scenario::{Catalogue, Scenario};
use super::world::World;

/// Runs and compares every step, and returns the first differences as text; empty if all steps
/// agree with the model.
pub(super) async fn play(
    database: TestStore,
    catalogue: &Catalogue,
    scenario: &Scenario,
) -> String {
    let mut world = Box::pin(World::begin(database, catalogue, scenario)).await;
    let told = steps(&mut world, scenario).await;
    if told.is_empty() {
        Box::pin(world.end()).await;
    }
    told
}

/// The same in a given world.
pub(super) async fn steps(world: &mut World, scenario: &Scenario) -> String {
    let mut comparison = Comparison::default();
    for (index, step) in scenario.steps.iter().enumerate() {
        let answer = Box::pin(world.play(step)).await;
        let seen = Box::pin(world.look()).await;
        let differences = comparison.of(&step.expect, &seen, world.deaf);
        if answer == step.answer && differences.is_empty() {
            continue;
        }
        // Later steps depend on this one, so they are not compared.
        let mut told = format!("{}, step {}: {}\n", scenario.name, index + 1, step.event);
        if answer != step.answer {
            writeln!(told, "  answer: expected {}, got {answer}", step.answer).unwrap();
        }
        for one in &differences {
            tell(&mut told, one);
        }
        return told;
    }
    String::new()
}

fn tell(told: &mut String, difference: &Difference) {
    let Difference { field, expected, seen } = difference;
    writeln!(told, "  {field}: expected {expected}, got {seen}").unwrap();
}
