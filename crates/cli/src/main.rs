//! The command line: one binary with a command for each use.
//!
//! Commands talk to the terminal; everything else is in the other crates.

mod commands;
mod log_writer;
mod logs;
mod output;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{CommandFactory as _, Parser, Subcommand};
use settings::Config;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A gateway to four creator platforms, metered in credits.
#[derive(Parser)]
#[command(
    name = "creator-gateway",
    version,
    about = "A gateway to four creator platforms, metered in credits"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs everything on this machine: the gateway and four simulated platforms, with a demo
    /// customer.
    Sandbox(commands::sandbox::Options),
    /// Runs the service.
    Serve(ConfigFile),
    /// Creates the database if it is missing, applies its migrations and ends.
    Migrate(ConfigFile),
    /// Runs only the simulators: the platforms, the payment processor and a mail server.
    Simulators(commands::simulators::Options),
    /// Checks every invariant of the ledger, also beside a running service.
    Verify(commands::verify::Options),
    /// Shows, exports and imports the route catalogue.
    #[command(subcommand)]
    Catalog(commands::catalog::Command),
    /// Staff work: customers, credits, keys, the master key.
    Admin(commands::admin::Options),
    /// Checks the payment processor's set-up, or makes what is missing there.
    #[command(subcommand)]
    Processor(commands::processor::Command),
    /// Prints an OpenAPI document: of the service's own routes, of a platform's, or of all.
    Openapi(commands::openapi::Options),
    /// Prints the configuration in force, secrets hidden, and all its problems.
    CheckConfig(ConfigFile),
    /// Prints the completions of a shell; packages contain them.
    #[command(hide = true)]
    Completions(commands::package_files::CompletionOptions),
    /// Writes the manual pages; packages contain them.
    #[command(hide = true)]
    Man(commands::package_files::ManualOptions),
}

/// Which configuration to use.
#[derive(clap::Args)]
pub(crate) struct ConfigFile {
    /// A TOML file over the built-in defaults; environment variables override both.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ConfigFile {
    /// Loads the configuration.
    pub(crate) fn load(&self) -> anyhow::Result<Config> {
        match &self.config {
            Some(path) => Config::load(Some(path)).with_context(|| {
                format!("the configuration file {} is not usable", path.display())
            }),
            None => Ok(Config::load(None)?),
        }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let done = match runtime {
        Ok(runtime) => {
            let done = runtime.block_on(run(arguments.command));
            // Tasks that a command leaves running are meant to be abandoned.
            runtime.shutdown_background();
            done
        }
        Err(error) => Err(error.into()),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            output::complain(&format!("error: {}", output::failure(&error)));
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Sandbox(options) => Box::pin(commands::sandbox::run(options)).await,
        Command::Serve(file) => Box::pin(commands::serve::run(&file)).await,
        Command::Migrate(file) => commands::migrate::run(&file).await,
        Command::Simulators(options) => commands::simulators::run(&options).await,
        Command::Verify(options) => commands::verify::run(&options).await,
        Command::Catalog(command) => commands::catalog::run(command),
        Command::Admin(options) => Box::pin(commands::admin::run(options)).await,
        Command::Processor(command) => commands::processor::run(command).await,
        Command::Openapi(options) => commands::openapi::run(&options),
        Command::CheckConfig(file) => commands::check_config::run(&file),
        Command::Completions(options) => {
            commands::package_files::completions(Arguments::command(), &options)
        }
        Command::Man(options) => commands::package_files::manual(Arguments::command(), &options),
    }
}
