//! `processor check` and `processor setup`: whether the payment processor is set up as this
//! configuration needs it, and making what is missing.

use std::process::ExitCode;

use anyhow::Context as _;
use operators::processor_setup::{ProcessorSetup, SetupFinding, SetupLevel, SetupReport};
use runtime::clock::Clock;
use secrecy::ExposeSecret;
use serde_json::json;
use settings::Config;

use crate::ConfigFile;
use crate::output::{say, say_line};

/// What to do at the payment processor.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Checks keys, prices, the endpoint for events, the portal and tax. Changes nothing.
    Check(Options),
    /// Makes the endpoint for events and the configuration of the portal, or completes them.
    Setup {
        #[command(flatten)]
        options: Options,
        /// Only says what would be done.
        #[arg(long)]
        dry_run: bool,
    },
}

/// Which deployment it is for.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    file: ConfigFile,
    /// Where the processor sends events; by default `http.public_base_url` with
    /// /v1/billing/webhook.
    #[arg(long, value_name = "URL")]
    webhook_url: Option<String>,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command. A check fails if it finds a problem.
pub(crate) async fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Check(options) => check(&options).await,
        Command::Setup { options, dry_run } => set_up(&options, dry_run).await,
    }
}

async fn check(options: &Options) -> anyhow::Result<ExitCode> {
    let config = options.file.load()?;
    let (processor, webhook_url) = prepared(options, &config)?;
    let setup =
        ProcessorSetup { config: &config, processor: &processor, webhook_url: &webhook_url };
    let findings = setup.check().await;
    if options.json {
        say(&format!("{}\n", serde_json::to_string_pretty(&json!({"findings": findings}))?))?;
    } else {
        for SetupFinding { level, subject, message } in &findings {
            let word = match level {
                SetupLevel::Good => "ok     ",
                SetupLevel::Warning => "warning",
                SetupLevel::Problem => "PROBLEM",
            };
            say_line!("{word}  {subject}: {message}")?;
        }
    }
    let is_good = findings.iter().all(|found| found.level != SetupLevel::Problem);
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn set_up(options: &Options, dry_run: bool) -> anyhow::Result<ExitCode> {
    let config = options.file.load()?;
    let (processor, webhook_url) = prepared(options, &config)?;
    let setup =
        ProcessorSetup { config: &config, processor: &processor, webhook_url: &webhook_url };
    let report = setup.complete(Clock::system().now(), dry_run).await?;
    let secret = report.webhook_secret.as_ref().map(ExposeSecret::expose_secret);
    if options.json {
        let SetupReport { done, portal_configuration, .. } = &report;
        let shown = json!({
            "dry_run": dry_run, "done": done, "webhook_secret": secret, "portal_configuration": portal_configuration,
        });
        say(&format!("{}\n", serde_json::to_string_pretty(&shown)?))?;
        return Ok(ExitCode::SUCCESS);
    }
    if report.done.is_empty() {
        say_line!("nothing is missing")?;
    }
    for done in &report.done {
        say_line!("{}  {done}", if dry_run { "missing" } else { "made" })?;
    }
    if let Some(secret) = secret {
        say_line!(
            "\nThe signing secret is shown only this once. Put it into the configuration, and start the service again:\n\n\
             [processor]\nwebhook_secrets = [\"{secret}\"]"
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

fn prepared(
    options: &Options,
    config: &Config,
) -> anyhow::Result<(processor_client::ProcessorClient, String)> {
    let client = config.processor.client().map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        anyhow::anyhow!("the configuration has problems:\n  {}", lines.join("\n  "))
    })?;
    let processor = client.context(
        "no payment processor is configured: set processor.base_url and the settings below it",
    )?;
    let default = || operators::processor_setup::default_webhook_url(config);
    Ok((processor, options.webhook_url.clone().unwrap_or_else(default)))
}
