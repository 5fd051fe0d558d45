//! `sandbox`: everything on one machine, with one command.
//!
//! The gateway on SQLite, four simulated platforms, a simulated payment processor, a mail server
//! that shows what it receives, and a demo customer with keys and connected accounts. With
//! `--data`, a later start keeps everything, including the simulators' state.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use domain::key::KeyScope;
use domain::platform::Platform;
use node::demo::{self, WantedAccount, WantedDemo};
use runtime::clock::{Clock, Random};
use settings::Config;

use super::Signals;
use crate::{logs, output};

/// The database's file in the data folder.
pub(crate) const DATABASE: &str = "creator-gateway.db";
const SIMULATORS: &str = "simulators";
const REMEMBERED: &str = "sandbox.json";
/// The file of the log, one line per request, unless `RUST_LOG` is set.
const LOG: &str = "gateway.log";
const EMAIL: &str = "demo@example.com";
const CREDITS: i64 = 10_000;

/// Addresses, folder and size.
#[derive(clap::Args)]
#[command(
    after_help = "Log lines go to gateway.log in the data folder, one for each request. With RUST_LOG set, to a level such \
                        as `info` or `gateway=debug`, they go to standard error instead.\n\n\
                        Environment variables such as CREATOR_GATEWAY__BRAND__NAME set the brand of pages and emails; other \
                        settings are the sandbox's own."
)]
pub(crate) struct Options {
    /// Address and port of the gateway; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Keeps everything in this folder; otherwise in a temporary one that is deleted at the end.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Subscribers of each demo account; they are generated page by page, not stored.
    #[arg(long, value_name = "N")]
    subscribers: Option<u64>,
    /// Prints one JSON object on one line.
    #[arg(long)]
    json: bool,
}

/// What a later start on the same folder needs: secrets that are stored nowhere else.
#[derive(serde::Serialize, serde::Deserialize)]
struct Remembered {
    api_key: String,
    read_only_key: String,
    password: String,
    accounts: BTreeMap<Platform, String>,
}

/// What is printed with `--json`.
#[derive(serde::Serialize)]
struct Description<'a> {
    base_url: String,
    /// The pages for people; the customer below can sign in.
    console_url: String,
    simulators_url: String,
    /// Where sent emails can be read.
    mail_url: String,
    /// The simulated payment processor's page, with payments and test cards.
    processor_url: String,
    admin_url: String,
    data: String,
    /// The file with a log line per request; `None` if the log goes to standard error.
    log: Option<String>,
    api_key: &'a str,
    read_only_key: &'a str,
    customer: SandboxCustomer<'a>,
    accounts: &'a BTreeMap<Platform, String>,
}

#[derive(serde::Serialize)]
struct SandboxCustomer<'a> {
    email: &'a str,
    password: &'a str,
}

/// Runs the sandbox until told to stop.
pub(crate) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::listen()?;
    let temporary = if options.data.is_none() { Some(tempfile::tempdir()?) } else { None };
    let folder = match (&options.data, &temporary) {
        (Some(folder), _) => folder.clone(),
        (None, Some(temporary)) => temporary.path().to_path_buf(),
        (None, None) => anyhow::bail!("there is no data folder"),
    };
    is_free(options.listen)?;
    // It contains a demo customer's keys and password.
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)
        .with_context(|| format!("the data folder {} cannot be created", folder.display()))?;
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    let state = Some(folder.join(SIMULATORS));
    let settings = super::simulators::settings(any_port, state, options.subscribers);
    let demo_accounts = simulators::demo_accounts(&settings);
    let world =
        simulators::start(settings.clone()).await.context("the simulators did not start")?;
    let config = config(&options, &folder, &settings, &world)?;
    let log_file = std::env::var_os("RUST_LOG").is_none().then(|| folder.join(LOG));
    let _flushed_at_end = match &log_file {
        Some(file) => logs::start_in(&config.log, file)?,
        None => logs::start(&config.log)?,
    };
    let gateway = node::start::start(config, Clock::system(), Random::System).await?;
    let remembered = match remembered(&folder)? {
        Some(remembered) => renewed(&gateway, &folder, remembered).await?,
        None => make_demo(&gateway, &folder, demo_accounts).await?,
    };
    world.set_processor_webhook(&format!("http://{}/v1/billing/webhook", gateway.address()));
    let log = log_file.map(|file| file.display().to_string());
    let description = Description { log, ..description(&gateway, &world, &folder, &remembered) };
    let text = if options.json { in_json(&description)? } else { in_words(&description)? };
    output::announce(&text);
    tokio::select! {
        _ = signals.stop_or_reload(&gateway) => {}
        () = gateway.disk_failure() => return Ok(super::end_at_once(gateway)),
    }
    if !options.json {
        output::announce("\nstopping\n");
    }
    gateway.stop().await;
    world.stop().await;
    Ok(ExitCode::SUCCESS)
}

/// Refuses an address in use before anything is created; otherwise a data folder would be left
/// behind.
fn is_free(listen: SocketAddr) -> anyhow::Result<()> {
    std::net::TcpListener::bind(listen).map(drop).with_context(|| {
        format!(
            "{listen} cannot be used for the gateway; choose another address and port with `--listen` (port 0 takes a \
             free one)"
        )
    })
}

/// The defaults, pointed at the simulated platforms.
fn config(
    options: &Options,
    folder: &Path,
    settings: &simulators::SimulatorSettings,
    world: &simulators::RunningSimulators,
) -> anyhow::Result<Config> {
    let text = |value: &str| super::simulators::toml_value(&value.into());
    let mut toml = format!(
        "[http]\nlisten = {}\npublic_base_url = {}\n\
         [admin]\nlisten = \"127.0.0.1:0\"\n\
         [database]\nurl = {}\n\
         [mail]\nurl = {}\nfrom = \"creator-gateway sandbox <no-reply@sandbox.localhost>\"\n\
         operator_email = \"operator@example.com\"\n\
         [log]\nfilter = {}\n",
        text(&options.listen.to_string()),
        text(&format!("http://{}", options.listen)),
        text(&format!("sqlite:{}", folder.join(DATABASE).display())),
        text(&format!("smtp://{}", world.mail_address())),
        text(&std::env::var("RUST_LOG").unwrap_or_else(|_| "info".to_owned())),
    );
    writeln!(
        toml,
        "[processor]\nbase_url = {}\njs_url = {}\nsecret_key = {}\npublishable_key = {}\nwebhook_secrets = [{}]",
        text(&world.processor_url()),
        text(&world.processor_js_url()),
        text(&settings.processor.secret_key),
        text(&settings.processor.publishable_key),
        text(&settings.processor.webhook_secret),
    )?;
    for (platform, setting) in super::simulators::platform_settings(settings, world) {
        writeln!(toml, "[platforms.{platform}]")?;
        for (member, value) in setting.as_object().into_iter().flatten() {
            writeln!(toml, "{member} = {}", super::simulators::toml_value(value))?;
        }
    }
    let mut config = Config::from_toml(&toml)?;
    config.brand = Config::brand_of_environment()?;
    // The simulated platforms log the id of each call, so that their log can be compared with the
    // ledger.
    config.platforms.add_header_everywhere("X-Call-Id", "{call_id}");
    Ok(config)
}

async fn make_demo(
    gateway: &node::start::RunningService,
    folder: &Path,
    demo_accounts: Vec<simulators::DemoAccount>,
) -> anyhow::Result<Remembered> {
    let password = "sandbox-password".to_owned();
    let mut accounts = BTreeMap::new();
    let mut wanted = Vec::new();
    for account in demo_accounts {
        let platform: Platform = account.platform.parse()?;
        if accounts.contains_key(&platform) {
            continue;
        }
        accounts.insert(platform, account.creator_id.to_owned());
        let auth = account.auth.as_object().cloned().unwrap_or_default();
        wanted.push(WantedAccount { platform, creator_id: account.creator_id.parse()?, auth });
    }
    let email = EMAIL.parse()?;
    let made = demo::make(
        gateway,
        WantedDemo { email, password: password.clone(), credits: CREDITS, accounts: wanted },
    )
    .await?;
    let remembered =
        Remembered { api_key: made.api_key, read_only_key: made.read_only_key, password, accounts };
    remember(folder, &remembered)?;
    Ok(remembered)
}

/// The remembered secrets, with new keys instead of those that were rotated or revoked in the
/// meantime: only the caller who rotated a key knows its new secret.
async fn renewed(
    gateway: &node::start::RunningService,
    folder: &Path,
    mut remembered: Remembered,
) -> anyhow::Result<Remembered> {
    let email = EMAIL.parse()?;
    let mut is_changed = false;
    for (key, scope) in [
        (&mut remembered.api_key, KeyScope::Full),
        (&mut remembered.read_only_key, KeyScope::ReadOnly),
    ] {
        if let Some(fresh) = demo::replace_dead_key(gateway, &email, key, scope).await? {
            *key = fresh;
            is_changed = true;
        }
    }
    if is_changed {
        remember(folder, &remembered)?;
    }
    Ok(remembered)
}

fn remembered(folder: &Path) -> anyhow::Result<Option<Remembered>> {
    let path = folder.join(REMEMBERED);
    match std::fs::read(&path) {
        Ok(text) => Ok(Some(
            serde_json::from_slice(&text)
                .with_context(|| format!("{} was not written by a sandbox", path.display()))?,
        )),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("{} cannot be read", path.display())),
    }
}

/// Written whole or not at all: after a start that is killed in between, the next one creates new
/// keys.
fn remember(folder: &Path, remembered: &Remembered) -> anyhow::Result<()> {
    let temporary = folder.join("sandbox.json.tmp");
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)?;
    file.write_all(&serde_json::to_vec_pretty(remembered)?)?;
    file.sync_all()?;
    std::fs::rename(&temporary, folder.join(REMEMBERED))?;
    Ok(())
}

fn description<'a>(
    gateway: &node::start::RunningService,
    world: &simulators::RunningSimulators,
    folder: &Path,
    remembered: &'a Remembered,
) -> Description<'a> {
    Description {
        base_url: format!("http://{}", gateway.address()),
        console_url: format!("http://{}/console", gateway.address()),
        simulators_url: format!("http://{}", world.address()),
        mail_url: world.mail_url(),
        processor_url: world.processor_url(),
        admin_url: format!("http://{}", gateway.admin_address()),
        data: folder.display().to_string(),
        log: None,
        api_key: &remembered.api_key,
        read_only_key: &remembered.read_only_key,
        customer: SandboxCustomer { email: EMAIL, password: &remembered.password },
        accounts: &remembered.accounts,
    }
}

/// One JSON object on one line.
fn in_json(description: &Description<'_>) -> anyhow::Result<String> {
    Ok(format!("{}\n", serde_json::to_string(description)?))
}

/// For people: the console and its login, the key, lines to copy, and where everything is.
fn in_words(description: &Description<'_>) -> Result<String, std::fmt::Error> {
    let mut out = String::new();
    let SandboxCustomer { email, password } = &description.customer;
    writeln!(out, "creator-gateway sandbox is ready\n")?;
    writeln!(out, "  Console     {}", description.console_url)?;
    writeln!(out, "  Sign in     {email} with the password {password}\n")?;
    writeln!(out, "Or call the API. Copy the key, then any of these lines:\n")?;
    writeln!(out, "  export CGW_KEY={}\n", description.api_key)?;
    write_lines(&mut out, description)?;
    write_addresses(&mut out, description)?;
    writeln!(out, "Press Ctrl-C to stop.")?;
    Ok(out)
}

/// Five lines that work with `$CGW_KEY`: a call, the balance, an export, a purchase, and a month
/// that passes.
fn write_lines(out: &mut String, description: &Description<'_>) -> std::fmt::Result {
    const KEY: &str = "-H \"X-API-Key: $CGW_KEY\"";
    const JSON: &str = "-H 'Content-Type: application/json'";
    let base = &description.base_url;
    let account = |platform: Platform| {
        description.accounts.get(&platform).map(String::as_str).unwrap_or_default()
    };
    let (alpha, gamma) = (account(Platform::ALPHA), account(Platform::GAMMA));
    let export = "'{\"dataset\":\"subscribers\",\"fmt\":\"csv\"}'";
    let clock = format!("{}/control/processor/clock", description.simulators_url);
    writeln!(out, "  curl -i {KEY} {base}/v1/{alpha}/native/users/me")?;
    writeln!(out, "  curl {KEY} {base}/v1/billing")?;
    writeln!(out, "  curl {KEY} {JSON} -d {export} {base}/v1/{gamma}/exports")?;
    writeln!(
        out,
        "  curl {KEY} {JSON} -d '{{\"pack_id\":\"pack_10\"}}' {base}/v1/billing/checkout"
    )?;
    writeln!(out, "  curl -d '{{\"advance_months\":1}}' {clock}\n")?;
    writeln!(
        out,
        "The first shows its cost in the headers. The fourth returns the address of a page;"
    )?;
    writeln!(out, "pay there with the card 4242 4242 4242 4242. The last lets a month pass.\n")
}

/// Where everything is.
fn write_addresses(out: &mut String, description: &Description<'_>) -> std::fmt::Result {
    let base = &description.base_url;
    writeln!(out, "  Docs        {base}/docs")?;
    let accounts: Vec<&str> = description.accounts.values().map(String::as_str).collect();
    writeln!(out, "  Accounts    {}", accounts.join(", "))?;
    writeln!(out, "  Read-only   {} (a key for reads alone)", description.read_only_key)?;
    writeln!(out, "  Platforms   {} (simulated)", description.simulators_url)?;
    writeln!(out, "  Payments    {}/processor (simulated)", description.processor_url)?;
    writeln!(out, "  Emails      {}", description.mail_url)?;
    writeln!(out, "  Metrics     {}/metrics", description.admin_url)?;
    writeln!(out, "  Data        {}", description.data)?;
    if let Some(log) = &description.log {
        writeln!(out, "  Log         {log} (a line for each request)")?;
    }
    writeln!(out)
}
