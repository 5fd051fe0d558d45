//! `check-config`: the configuration in force, secrets hidden, and everything that is wrong with it.

use std::process::ExitCode;

use crate::ConfigFile;

/// Prints the configuration; fails when the service would not start with it.
pub(crate) fn run(file: &ConfigFile) -> anyhow::Result<ExitCode> {
    let config = file.load()?;
    println!("{config:#?}");
    let problems = server::start::problems(&config);
    if problems.is_empty() {
        println!("no problems");
        return Ok(ExitCode::SUCCESS);
    }
    println!("{} problem(s):", problems.len());
    for problem in problems {
        println!("  {problem}");
    }
    Ok(ExitCode::FAILURE)
}
