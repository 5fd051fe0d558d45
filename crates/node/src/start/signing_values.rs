//! Signing values: read before anything is served, and again and again while the service runs.

use std::time::Duration;

use accounts::PlatformTargets;
use domain::platform::Platform;
use platform_client::PlatformTarget;
use runtime::metrics;
use settings::ConfigProblem;

use super::error::StartError;

/// The longest time that the first reading of an address may take.
const FIRST_READ_MAX: Duration = Duration::from_secs(30);

/// Reads the values of every platform; a service without them would refuse each call.
pub(super) async fn read_all(targets: &PlatformTargets) -> Result<(), StartError> {
    let mut problems = Vec::new();
    for (platform, target) in targets.iter() {
        let problem = match tokio::time::timeout(FIRST_READ_MAX, target.read_values()).await {
            Ok(Ok(())) => continue,
            Ok(Err(failure)) => failure.to_string(),
            Err(_) => "the signing values could not be read in time".to_owned(),
        };
        let key = format!("platforms.{platform}.signing.values");
        problems.push(ConfigProblem::new(key, problem));
    }
    if problems.is_empty() { Ok(()) } else { Err(StartError::Configuration(problems)) }
}

/// Reads the values of a platform again.
pub(super) async fn read(platform: Platform, target: &PlatformTarget) {
    if let Err(error) = target.read_values().await {
        let age_s = target.values_age().map_or(0, |age| age.as_secs());
        tracing::warn!(%platform, %error, age_s, "signing values could not be read; the last good ones stay in use");
    }
}

/// Shows how old the values in use are.
pub(super) fn show_ages(targets: &PlatformTargets) {
    for (platform, target) in targets.iter() {
        if let Some(age) = target.values_age() {
            metrics::signing_values_age(platform, age);
        }
    }
}
