//! `TestApp`: the real service on a real socket, with a manual clock and a seeded random generator.
//!
//! At its end it checks the invariants of every test: no call is left open, and the ledger keeps
//! its rules.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};

use domain::time::Timestamp;
use node::start::RunningService;
use runtime::clock::{Clock, Random};
use settings::Config;
use simulators::{ProcessorSettings, SimulatorSettings};
use store::testing::{StoreCopy, TestStore};

use super::client::Client;

/// The clock's initial time, which is also the simulated world's present.
pub const NOON: &str = "2026-11-21T12:00:00Z";

/// The service with simulated platforms.
pub struct TestApp {
    running: Option<RunningService>,
    /// The simulated platforms, processor and mail server.
    pub world: simulators::RunningSimulators,
    /// The clock of the service.
    pub clock: Clock,
    /// The clock of the simulators.
    pub world_clock: simulators::SimulatorClock,
    /// What the simulators were started with.
    pub settings: SimulatorSettings,
    database: TestStore,
    config: Config,
    customers: AtomicU64,
    uploads: tempfile::TempDir,
}

/// A customer created for a test, with a key of full scope.
pub struct Customer {
    /// Its id.
    pub id: String,
    /// The id of its key.
    pub key_id: String,
    /// The key itself.
    pub key: String,
}

/// Runs a test on the service, which uses the database that the test is about.
pub async fn with_app<F, T>(test: F)
where
    F: Fn(TestApp) -> T,
    T: Future<Output = TestApp>,
{
    let database = store::testing::store().await;
    let app = TestApp::start(database, "").await;
    test(app).await.end().await;
}

impl TestApp {
    /// Starts the service on SQLite, with these changes to the default configuration.
    pub async fn on_sqlite(overrides: &str) -> Self {
        Self::start(store::testing::sqlite().await, overrides).await
    }

    /// Starts the service on a database, with these changes to the default configuration.
    pub async fn start(database: TestStore, overrides: &str) -> Self {
        Self::start_at(Timestamp::from_rfc3339(NOON).unwrap(), database, overrides).await
    }

    /// The same, with the clocks set to `start`.
    pub async fn start_at(start: Timestamp, mut database: TestStore, overrides: &str) -> Self {
        let world_clock = simulators::SimulatorClock::manual(start.unix_micros() / 1_000);
        let settings = SimulatorSettings {
            listen: "127.0.0.1:0".parse().unwrap(),
            data: None,
            clock: world_clock.clone(),
            // The processor's events are delivered when a test asks for it.
            processor: ProcessorSettings { events_held: true, ..ProcessorSettings::default() },
            ..SimulatorSettings::default()
        };
        let world = simulators::start(settings.clone()).await.unwrap();
        database.shut().await;
        let url = database.options().url.clone();
        let uploads = tempfile::tempdir().unwrap();
        let own = format!(
            "[uploads]\nfolder = '{}'\n[storage]\nurl = 'file:{}'",
            uploads.path().join("spool").display(),
            uploads.path().join("exports").display()
        );
        let config = config(&url, &settings, &world, &[&own, overrides]);
        let clock = Clock::manual(start);
        let running =
            node::start::start(config.clone(), clock.clone(), Random::seeded(7)).await.unwrap();
        receive_events(&world, &running);
        Self {
            running: Some(running),
            world,
            clock,
            world_clock,
            settings,
            database,
            config,
            customers: AtomicU64::new(0),
            uploads,
        }
    }

    /// The folder with the exports and their spools.
    pub fn exports_folder(&self) -> std::path::PathBuf {
        self.uploads.path().join("exports")
    }

    /// Runs the waiting exports and returns the number of claims.
    pub async fn run_exports(&self) -> usize {
        self.running().run_exports().await.unwrap()
    }

    /// The folder for the files of uploads.
    pub fn spool_folder(&self) -> std::path::PathBuf {
        self.uploads.path().join("spool")
    }

    /// Mode and length of each upload's file on disk. The files are unlinked as soon as they are
    /// open, so they are found among this process's open files.
    pub fn spooled(&self) -> Vec<(u32, u64)> {
        use std::os::unix::fs::MetadataExt as _;
        let folder = self.spool_folder();
        let open = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(Result::ok);
        let own = open.filter(|entry| {
            std::fs::read_link(entry.path()).is_ok_and(|target| {
                target.starts_with(&folder) && target.to_string_lossy().ends_with(" (deleted)")
            })
        });
        let known = own.filter_map(|entry| std::fs::metadata(entry.path()).ok());
        known.map(|file| (file.mode() & 0o7777, file.len())).collect()
    }

    /// The running service.
    pub fn running(&self) -> &RunningService {
        self.running.as_ref().unwrap()
    }

    /// The store of the running service.
    pub fn store(&self) -> &store::Store {
        self.running().store()
    }

    /// Advances the clocks of the service and of the platforms.
    pub fn advance_seconds(&self, seconds: i64) {
        self.clock.advance_seconds(seconds);
        self.world_clock.advance_ms(seconds * 1_000);
    }

    /// A client without a key.
    pub fn anonymous(&self) -> Client {
        Client::new(self.running().address())
    }

    /// A client with this key.
    pub fn with_key(&self, key: &str) -> Client {
        self.anonymous().with_key(key)
    }

    /// Creates a customer with this many credits, as staff do.
    pub async fn customer(&self, credits: i64) -> Customer {
        let number = self.customers.fetch_add(1, Ordering::Relaxed);
        let done = self
            .staff(serde_json::json!({
                "command": "create_customer",
                "email": format!("customer{number}@example.com"),
                "name": "",
                "credits": credits,
            }))
            .await;
        let text = |field: &str| done[field].as_str().unwrap().to_owned();
        Customer { id: text("customer_id"), key_id: text("key_id"), key: text("api_key") }
    }

    /// Runs a staff command through the admin listener.
    pub async fn staff(&self, command: serde_json::Value) -> serde_json::Value {
        use secrecy::ExposeSecret as _;
        let token = self.running().admin_token().expose_secret().to_owned();
        let admin = Client::new(self.running().admin_address());
        let reply = admin.bearer(&token).post("/commands", &command).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()
    }

    /// Connects the simulated platform's first account to the customer, and returns its id.
    pub async fn connect(&self, customer: &Customer, platform: &str) -> String {
        self.connect_nth(customer, platform, 0).await
    }

    /// Connects the `nth` of the simulated platform's accounts to the customer, and returns its id.
    pub async fn connect_nth(&self, customer: &Customer, platform: &str, nth: usize) -> String {
        let accounts = simulators::demo_accounts(&self.settings);
        let account =
            accounts.iter().filter(|account| account.platform == platform).nth(nth).unwrap();
        let import = serde_json::json!({
            "creator_id": account.creator_id, "platform": platform, "auth": account.auth,
        });
        let reply = self.with_key(&customer.key).post("/v1/connect/import", &import).await;
        assert!(reply.status == 201 || reply.status == 200, "{}", reply.text());
        account.creator_id.to_owned()
    }

    /// A customer with credits and an account on the platform: (customer, client with its key,
    /// account).
    pub async fn ready(&self, platform: &str, credits: i64) -> (Customer, Client, String) {
        let customer = self.customer(credits).await;
        let account = self.connect(&customer, platform).await;
        let client = self.with_key(&customer.key);
        (customer, client, account)
    }

    /// The base URL of a simulated platform.
    pub fn platform_url(&self, platform: &str) -> String {
        self.world.platform_url(platform)
    }

    /// The credentials of the simulated platform's first account.
    pub fn demo_auth(&self, platform: &str) -> serde_json::Value {
        let accounts = simulators::demo_accounts(&self.settings);
        accounts.into_iter().find(|account| account.platform == platform).unwrap().auth
    }

    /// The requests that the simulated platform has received, oldest first.
    pub async fn seen(&self, platform: &str) -> Vec<serde_json::Value> {
        let path = format!("/control/requests?platform={platform}&limit=100000");
        let reply = Client::new(self.world.address()).get(&path).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()["requests"].as_array().unwrap().clone()
    }

    /// Makes the simulated platforms fail in this way (docs/simulators.md).
    pub async fn fault(&self, fault: &serde_json::Value) {
        let reply = Client::new(self.world.address()).post("/control/faults", fault).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
    }

    /// Sends a control request to the simulators.
    pub async fn world_control(&self, path: &str, body: &serde_json::Value) -> serde_json::Value {
        let reply = Client::new(self.world.address()).post(&format!("/control/{path}"), body).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()
    }

    /// Resets all changes made at the simulators.
    pub async fn reset_world(&self) {
        self.world_control("reset", &serde_json::json!({})).await;
    }

    /// Removes all faults.
    pub async fn no_faults(&self) {
        let reply = Client::new(self.world.address()).delete("/control/faults").await;
        assert_eq!(reply.status, 200, "{}", reply.text());
    }

    /// Runs the due jobs and returns the number of attempts.
    pub async fn run_jobs(&self) -> usize {
        self.running().run_due_jobs().await.unwrap()
    }

    /// The emails to the address, oldest first, with text and links. Runs the jobs first.
    pub async fn mails_to(&self, email: &str) -> Vec<serde_json::Value> {
        self.run_jobs().await;
        let control = Client::new(self.world.address());
        let list =
            control.get(&format!("/control/mail?to={}", email.replace('+', "%2B"))).await.json();
        let mut mails = Vec::new();
        for mail in list["mails"].as_array().unwrap() {
            mails.push(control.get(&format!("/control/mail/{}", mail["id"])).await.json());
        }
        mails
    }

    /// The token in the newest email to the address.
    pub async fn mailed_token(&self, email: &str) -> String {
        let mails = self.mails_to(email).await;
        let link = mails.last().expect("no email arrived")["links"][0].as_str().unwrap();
        link.split_once("?token=").unwrap().1.to_owned()
    }

    /// Makes the mail server refuse the next emails with this SMTP code.
    pub async fn refuse_mails(&self, next: u64, code: u16) {
        let path = format!("/control/mail/refuse?next={next}&code={code}");
        let reply = Client::new(self.world.address()).post(&path, &serde_json::json!({})).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
    }

    /// Waits until no credits are held, because settlements follow the responses.
    pub async fn settled(&self, client: &Client) {
        self.settled_beside(client, 0).await;
    }

    /// The same, while exports hold this many credits.
    pub async fn settled_beside(&self, client: &Client, held_by_exports: i64) {
        for _ in 0..10_000 {
            if client.get("/v1/billing").await.json()["held"] == held_by_exports {
                return;
            }
        }
        panic!("a call was never settled");
    }

    /// Stops the service and starts it again on the same database.
    pub async fn restart(mut self) -> Self {
        self.running.take().unwrap().stop().await;
        let clock = self.clock.clone();
        let again = node::start::start(self.config.clone(), clock, Random::seeded(8)).await;
        let again = again.unwrap();
        receive_events(&self.world, &again);
        self.running = Some(again);
        self
    }

    /// Stops the service, so that the database can be inspected.
    pub async fn stop_service(&mut self) {
        self.running.take().unwrap().stop().await;
    }

    /// Stops the service, copies its database, and starts it again.
    pub async fn back_up(&mut self) -> StoreCopy {
        self.stop_service().await;
        let copy = self.database.copy().await;
        self.start_anew().await;
        copy
    }

    /// Stops the service, replaces its database by a copy, and starts it again.
    pub async fn restore(&mut self, copy: &StoreCopy) {
        self.stop_service().await;
        self.database.restore(copy).await;
        self.start_anew().await;
    }

    /// Starts the stopped service; it does not repeat the ids of an earlier start.
    async fn start_anew(&mut self) {
        let seed = self.clock.now().unix_micros().unsigned_abs();
        let (config, clock) = (self.config.clone(), self.clock.clone());
        let running = node::start::start(config, clock, Random::seeded(seed)).await.unwrap();
        receive_events(&self.world, &running);
        self.running = Some(running);
    }

    /// Starts the stopped service with a changed configuration, or returns why it does not start.
    pub async fn start_service(&mut self, change: impl FnOnce(&mut Config)) -> Result<(), String> {
        let mut config = self.config.clone();
        change(&mut config);
        let started = node::start::start(config, self.clock.clone(), Random::seeded(9)).await;
        let running = started.map_err(|error| {
            let mut text = error.to_string();
            let mut source = std::error::Error::source(&error);
            while let Some(cause) = source {
                text = format!("{text}: {cause}");
                source = cause.source();
            }
            text
        })?;
        receive_events(&self.world, &running);
        self.running = Some(running);
        Ok(())
    }

    /// The database, to be copied or replaced while the service is stopped.
    pub const fn database(&self) -> &TestStore {
        &self.database
    }

    /// The URL of the database.
    pub fn database_url(&self) -> &str {
        &self.database.options().url
    }

    /// The configuration of the first start.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// A client of the admin listener without the token.
    pub fn admin(&self) -> Client {
        Client::new(self.running().admin_address())
    }

    /// Stops everything and checks the invariants of every test.
    pub async fn end(mut self) {
        self.run_jobs().await;
        self.running.take().unwrap().stop().await;
        self.world.stop().await;
        self.database.reopen().await;
        let violations = store::verify::check(&self.database, self.clock.now()).await.unwrap();
        assert!(violations.is_empty(), "{violations:?}");
        let held = store::verify::open_calls(&self.database).await.unwrap();
        assert_eq!(held, 0, "no call may be left open");
        let jobs = store::jobs::count(&self.database).await.unwrap();
        assert_eq!(jobs, store::jobs::JobCounts::default(), "no job may be left");
    }
}

/// Makes the simulated processor deliver its events to this service.
fn receive_events(world: &simulators::RunningSimulators, running: &RunningService) {
    world.set_processor_webhook(&format!("http://{}/v1/billing/webhook", running.address()));
}

/// The default configuration with the simulated platforms, changed by `overrides`.
fn config(
    url: &str,
    settings: &SimulatorSettings,
    world: &simulators::RunningSimulators,
    overrides: &[&str],
) -> Config {
    let mut toml = toml::Table::new();
    let mut add = |text: String| merge(&mut toml, text.parse().unwrap());
    add(format!("[database]\nurl = {url:?}\nallow_unsafe_durability = true\nreserve_bytes = 0"));
    add("[http]\nlisten = \"127.0.0.1:0\"\ncores = 2\n[admin]\nlisten = \"127.0.0.1:0\"".to_owned());
    add("[slots.included]\nplatform_alpha = 4\nplatform_beta = 4\nplatform_gamma = 4".to_owned());
    if url.starts_with("postgres") {
        let key = "1:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
        add(format!("[secrets]\nmaster_keys = [{key:?}]"));
    }
    // A busy machine is slow, so timeouts are long except in the tests that set them.
    add("[metering]\nqueue_age_max_ms = 60000\ncommit_wait_max_ms = 60000\n\
         hold_wait_max_ms = 60000\n[http.limits]\ncalls_per_account_max = 4000"
        .to_owned());
    add("[http.timeouts]\nstream_after_ms = 60000".to_owned());
    add("[passwords]\nwaiting_max = 1000".to_owned());
    // The clock stands still, so rate limits never refill.
    add("[rate_limits]\ncontrol_per_key_per_second = 1000000\ncontrol_per_key_burst = 1000000\n\
         control_per_network_per_second = 1000000\ncontrol_per_network_burst = 1000000\n\
         imports_per_minute = 1000000\nkey_changes_per_minute = 1000000\n\
         payment_requests_per_minute = 1000000\nidempotency_keys_per_minute = 1000000"
        .to_owned());
    // Jobs run when a test asks for it, and at its end; exports only when a test asks for it.
    add("[exports]\nworkers = 0\n[notices]\nevery_s = 0".to_owned());
    add(format!("[jobs]\nworkers = 0\n[mail]\nurl = \"smtp://{}\"", world.mail_address()));
    add(format!(
        "[processor]\nbase_url = {:?}\njs_url = {:?}\nsecret_key = {:?}\npublishable_key = {:?}\n\
         webhook_secrets = [{:?}]\ntimeout_ms = 60000\nretry_pause_ms = 1\nreconcile_every_s = 0",
        world.processor_url(),
        world.processor_js_url(),
        settings.processor.secret_key,
        settings.processor.publishable_key,
        settings.processor.webhook_secret,
    ));
    let patient =
        "connect_ms = 60000\ntls_ms = 60000\nfirst_byte_ms = 60000\nbetween_bytes_ms = 60000";
    for platform in domain::platform::Platform::BUILT_IN {
        let base = world.platform_url(platform.as_str());
        add(format!("[platforms.{platform}]\nbase_url = {base:?}"));
        add(format!("[platforms.{platform}.timeouts]\n{patient}"));
    }
    add(format!(
        "[platforms.platform_beta.signing]\nscheme = \"hmac-sha256-v1\"\nkey = {:?}\nclient_id = {:?}\nclient_version = {:?}",
        settings.platforms.beta_signing_key,
        settings.platforms.beta_client_id,
        settings.platforms.beta_client_version
    ));
    let delta = world.platform_url("platform_delta");
    add(format!(
        "[platforms.platform_delta.oauth]\ntoken_url = \"{delta}/oauth/token\"\nclient_id = {:?}\nclient_secret = {:?}",
        settings.platforms.delta_client_id, settings.platforms.delta_client_secret
    ));
    for text in overrides {
        add((*text).to_owned());
    }
    drop_unused_timeouts(&mut toml);
    let mut config = Config::from_toml(&toml.to_string()).unwrap();
    config.platforms.add_header_everywhere("X-Call-Id", "{call_id}");
    config
}

/// Of a platform without an address, whose place another one may take, only what a test sets may
/// remain.
fn drop_unused_timeouts(toml: &mut toml::Table) {
    let platforms = toml.get_mut("platforms").and_then(toml::Value::as_table_mut);
    for (_, platform) in platforms.into_iter().flatten() {
        let platform = platform.as_table_mut().unwrap();
        if platform.get("base_url").and_then(toml::Value::as_str) == Some("") {
            platform.remove("timeouts");
        }
    }
}

/// Adds the entries of one table to another, whose tables it merges.
pub fn merge(into: &mut toml::Table, from: toml::Table) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(toml::Value::Table(inner)), toml::Value::Table(more)) => merge(inner, more),
            (_, value) => drop(into.insert(key, value)),
        }
    }
}
