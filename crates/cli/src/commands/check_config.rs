//! `check-config`: the configuration in force, secrets hidden, and all its problems.

use std::fmt::Write as _;
use std::process::ExitCode;

use settings::UnreadableConfig;

use crate::output::{complain, say};
use crate::{ConfigFile, logs};

/// Prints the configuration as TOML, and problems to standard error; fails if the service would not
/// start with it.
pub(crate) fn run(file: &ConfigFile) -> anyhow::Result<ExitCode> {
    let problems = match file.load() {
        Ok(config) => {
            say(&format!(
                "# The configuration in force. Secrets are hidden.\n{}",
                config.to_toml()?
            ))?;
            let mut problems = config.all_problems();
            problems.extend(logs::problem(&config.log).map(|problem| config.located(problem)));
            problems
        }
        Err(error) => match error.downcast_ref() {
            // If a value cannot be read, the configuration in force is unknown.
            Some(UnreadableConfig::Values(problems)) => problems.clone(),
            _ => return Err(error),
        },
    };
    if problems.is_empty() {
        say("# no problems\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!("{} problem(s):", problems.len());
    for problem in problems {
        write!(text, "\n  {problem}")?;
    }
    complain(&text);
    Ok(ExitCode::FAILURE)
}
