//! `simulators`: only the simulated platforms, the payment processor and the mail server.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use domain::platform::Platform;
use serde_json::{Map, Value, json};

use super::Signals;

/// Addresses, and what to simulate.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Address and port; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:8090")]
    listen: SocketAddr,
    /// Address and port for email; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    mail_listen: SocketAddr,
    /// Sends the payment processor's events to this http:// URL.
    #[arg(long, value_name = "URL")]
    webhook: Option<String>,
    /// Keeps the simulated platforms' state and request logs in this folder; otherwise in memory.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Subscribers of each demo account; they are generated page by page, not stored.
    #[arg(long, value_name = "N")]
    subscribers: Option<u64>,
    /// Prints one JSON object on one line instead.
    #[arg(long)]
    json: bool,
}

/// Runs the simulators until told to stop.
pub(crate) async fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let mut settings = settings(options.listen, options.data.clone(), options.subscribers);
    settings.mail_listen = options.mail_listen;
    settings.processor.webhook_url.clone_from(&options.webhook);
    let mut signals = Signals::listen()?;
    let keys = [
        settings.processor.secret_key.clone(),
        settings.processor.publishable_key.clone(),
        settings.processor.webhook_secret.clone(),
    ];
    let running = simulators::start(settings.clone())
        .await
        .context("the simulators did not start; choose another address and port with `--listen`")?;
    let platforms = platform_settings(&settings, &running);
    let address = running.address();
    let (mail_url, smtp_url) = (running.mail_url(), format!("smtp://{}", running.mail_address()));
    let [secret_key, publishable_key, webhook_secret] = keys;
    let (processor_url, js_url) = (running.processor_url(), running.processor_js_url());
    // Each member of `platforms`, `processor` and `mail` is a setting of the configuration section
    // with that name.
    let processor = json!({
        "base_url": processor_url, "js_url": js_url, "secret_key": secret_key,
        "publishable_key": publishable_key, "webhook_secrets": [webhook_secret],
    });
    let text = if options.json {
        let simulators_url = format!("http://{address}");
        let described = json!({
            "simulators_url": simulators_url, "mail_url": mail_url, "smtp_url": smtp_url,
            "platforms": platforms, "processor": processor, "mail": {"url": smtp_url},
        });
        format!("{described}\n")
    } else {
        let mut text = format!("simulated platforms at http://{address}\n");
        for (name, setting) in &platforms {
            writeln!(text, "  [platforms.{name}]")?;
            for (member, value) in setting.as_object().into_iter().flatten() {
                writeln!(text, "  {member} = {}", toml_value(value))?;
            }
        }
        writeln!(text, "payment processor at {processor_url}, shown at {processor_url}/processor")?;
        writeln!(text, "  [processor]")?;
        for (member, value) in processor.as_object().into_iter().flatten() {
            writeln!(text, "  {member} = {}", toml_value(value))?;
        }
        writeln!(text, "mail server at {smtp_url}, shown at {mail_url}")?;
        writeln!(text, "  [mail]\n  url = \"{smtp_url}\"")?;
        writeln!(text, "Press Ctrl-C to stop.")?;
        text
    };
    crate::output::announce(&text);
    signals.stop().await;
    running.stop().await;
    Ok(ExitCode::SUCCESS)
}

/// The settings that `serve` needs to reach each simulated platform: the members of
/// `[platforms.NAME]`.
pub(crate) fn platform_settings(
    settings: &simulators::SimulatorSettings,
    world: &simulators::RunningSimulators,
) -> Map<String, Value> {
    let setting = |platform: Platform| {
        let url = world.platform_url(platform.as_str());
        let described = match platform.as_str() {
            "platform_beta" => json!({
                "base_url": url,
                "signing": {
                    "scheme": "hmac-sha256-v1", "key": settings.platforms.beta_signing_key,
                    "client_id": settings.platforms.beta_client_id,
                    "client_version": settings.platforms.beta_client_version,
                },
            }),
            "platform_delta" => json!({
                "base_url": url,
                "oauth": {
                    "token_url": format!("{url}/oauth/token"),
                    "client_id": settings.platforms.delta_client_id,
                    "client_secret": settings.platforms.delta_client_secret,
                },
            }),
            _ => json!({"base_url": url}),
        };
        (platform.as_str().to_owned(), described)
    };
    Platform::BUILT_IN.into_iter().map(setting).collect()
}

/// A setting in TOML. A basic string is written like a JSON string.
pub(crate) fn toml_value(value: &Value) -> String {
    let Value::Object(members) = value else { return value.to_string() };
    let written = members.iter().map(|(name, member)| format!("{name} = {}", toml_value(member)));
    format!("{{ {} }}", written.collect::<Vec<_>>().join(", "))
}

/// The simulators' settings, with their own defaults for whatever is not given.
pub(crate) fn settings(
    listen: SocketAddr,
    data: Option<PathBuf>,
    subscribers: Option<u64>,
) -> simulators::SimulatorSettings {
    let mut settings =
        simulators::SimulatorSettings { listen, data, ..simulators::SimulatorSettings::default() };
    settings.platforms.subscribers = subscribers.unwrap_or(settings.platforms.subscribers);
    settings
}
