//! A log or a standard output that cannot be written costs lines and nothing else.

use std::io::{BufRead as _, BufReader, PipeReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use simulators::{DemoAccount, SimulatorSettings};

use crate::process::{Running, command, get, ok, request};

/// Enough calls to fill a pipe and the smallest buffer for lines, twice.
const CALLS_FOR_A_FULL_PIPE: usize = 700;

fn sandbox(data: &Path) -> Command {
    let data = data.to_str().unwrap();
    let arguments = ["sandbox", "--json", "--listen", "127.0.0.1:0", "--data", data];
    let mut command = command(Path::new("/"), &arguments);
    command.env("RUST_LOG", "info");
    command
}

fn text<'a>(facts: &'a Value, name: &str) -> &'a str {
    facts[name].as_str().unwrap_or_else(|| panic!("{name} is not in {facts}"))
}

/// The number of log lines that the service reports as lost.
fn lines_lost(admin_url: &str) -> f64 {
    let (status, _, metrics) = request(admin_url, "GET", "/metrics", "", "");
    assert_eq!(status, 200, "{metrics}");
    let line =
        metrics.lines().find(|line| line.starts_with("creator_gateway_log_lines_lost_total"));
    line.unwrap_or_else(|| panic!("{metrics}")).split(' ').nth(1).unwrap().parse().unwrap()
}

/// Reads, writes and refused calls on a sandbox whose log cannot be written: all get responses and
/// are settled.
fn calls_go_on(data: &Path, mut sandbox: Running) {
    let facts: Value = serde_json::from_str(&sandbox.line()).unwrap();
    let (base, key, admin) =
        (text(&facts, "base_url"), text(&facts, "api_key"), text(&facts, "admin_url"));
    let account = text(&facts["accounts"], "platform_alpha");
    for _ in 0..5 {
        get(base, &format!("/v1/{account}/native/users/me"), key);
        let write = format!("/v1/{account}/native/chats/mark-as-read");
        let (status, _, body) = request(base, "POST", &write, key, "{}");
        assert_eq!(status, 200, "{body}");
        let refused = request(base, "GET", "/v1/nobody/native/users/me", key, "");
        assert_eq!(refused.0, 404, "{}", refused.2);
    }

    assert_eq!(request(admin, "GET", "/ready", "", "").0, 200);
    assert!(lines_lost(admin) >= 10.0, "every line is lost and counted");
    let billing = get(base, "/v1/billing", key);
    assert_eq!((&billing["balance"], &billing["held"]), (&json!(9_985), &json!(0)), "{billing}");
    assert_eq!(sandbox.stop("TERM").0, 0);
    let verified = ok(Path::new("/"), &["verify", "--data", data.to_str().unwrap()]);
    assert_eq!(verified, "the ledger is consistent: no invariant is violated\n");
}

#[test]
fn calls_continue_when_the_disk_of_the_log_is_full() {
    let data = tempfile::tempdir().unwrap();
    let mut command = sandbox(data.path());
    command.stderr(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap());

    calls_go_on(data.path(), Running::start(command));
}

#[test]
fn calls_continue_without_a_reader_of_the_log() {
    let data = tempfile::tempdir().unwrap();
    let mut command = sandbox(data.path());
    let (reader, writer) = std::io::pipe().unwrap();
    command.stderr(writer);
    drop(reader);

    calls_go_on(data.path(), Running::start(command));
}

/// The service on simulated platforms; its log is a pipe of which only the first lines are read.
struct Unread {
    running: Running,
    /// Kept open, but no longer read.
    _log: BufReader<PipeReader>,
    base: String,
    admin: String,
    key: String,
    account: DemoAccount,
}

impl Unread {
    fn start(folder: &Path, platform_url: &str, account: DemoAccount) -> Self {
        let config = format!(
            "[http]\nlisten = \"127.0.0.1:0\"\ncores = 1\n[admin]\nlisten = \"127.0.0.1:0\"\n\
             [log]\nformat = \"json\"\nbuffer_bytes = 65536\n\
             [platforms.platform_alpha]\nbase_url = \"{platform_url}\"\n"
        );
        std::fs::write(folder.join("gateway.toml"), config).unwrap();
        ok(folder, &["migrate", "--config", "gateway.toml"]);
        let create = ["admin", "--json", "create-customer", "--email", "ada@example.com"];
        let with = ["--credits", "2000", "--config", "gateway.toml"];
        let made: Value =
            serde_json::from_str(&ok(folder, &[&create[..], &with].concat())).unwrap();
        let mut command = command(folder, &["serve", "--config", "gateway.toml"]);
        let (reader, writer) = std::io::pipe().unwrap();
        command.stderr(writer);
        let running = Running::start(command);
        let mut log = BufReader::new(reader);
        let listening = loop {
            let mut line = String::new();
            assert_ne!(log.read_line(&mut line).unwrap(), 0, "it ended");
            if line.contains("the service is listening") {
                break serde_json::from_str::<Value>(&line).unwrap();
            }
        };
        let url = |name: &str| format!("http://{}", text(&listening, name));
        let (base, admin) = (url("address"), url("admin_address"));
        let key = text(&made, "api_key").to_owned();
        Self { running, _log: log, base, admin, key, account }
    }

    fn import(&self) {
        let account = &self.account;
        let import =
            json!({"creator_id": "ada", "platform": account.platform, "auth": account.auth});
        let imported =
            request(&self.base, "POST", "/v1/connect/import", &self.key, &import.to_string());
        assert_eq!(imported.0, 201, "{}", imported.2);
    }
}

#[test]
fn calls_continue_while_the_log_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let settings = SimulatorSettings {
        listen: "127.0.0.1:0".parse().unwrap(),
        ..SimulatorSettings::default()
    };
    let account = simulators::demo_accounts(&settings)
        .into_iter()
        .find(|account| account.platform == "platform_alpha")
        .unwrap();
    let world = runtime.block_on(simulators::start(settings)).unwrap();
    let service = Unread::start(folder, &world.platform_url("platform_alpha"), account);
    service.import();

    for _ in 0..CALLS_FOR_A_FULL_PIPE {
        get(&service.base, "/v1/ada/native/users/me", &service.key);
    }

    assert_eq!(request(&service.admin, "GET", "/ready", "", "").0, 200);
    assert!(lines_lost(&service.admin) > 0.0);
    let billing = get(&service.base, "/v1/billing", &service.key);
    assert_eq!((&billing["balance"], &billing["held"]), (&json!(1_300), &json!(0)), "{billing}");
    assert_eq!(
        service.running.stop("TERM").0,
        0,
        "it ends although its last lines cannot be written"
    );
    let verified = ok(folder, &["verify", "--config", "gateway.toml"]);
    assert_eq!(verified, "the ledger is consistent: no invariant is violated\n");
    runtime.block_on(world.stop());
}

/// Waits until a sandbox that prints nothing is ready; returns its admin listener's address.
fn admin_url(data: &Path) -> String {
    let file = data.join("creator-gateway.db.admin");
    loop {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        if let Some((address, token)) = text.split_once('\n')
            && token.ends_with('\n')
        {
            return format!("http://{address}");
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_sandbox_with_unread_output_runs_and_stops_normally() {
    for is_json in [true, false] {
        let data = tempfile::tempdir().unwrap();
        let place = data.path().to_str().unwrap();
        let mut arguments = vec!["sandbox", "--listen", "127.0.0.1:0", "--data", place];
        arguments.extend(is_json.then_some("--json"));
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = command(Path::new("/"), &arguments);
        let child = command.stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let admin = admin_url(data.path());
        while !data.path().join("sandbox.json").exists() {
            std::thread::yield_now();
        }

        assert_eq!(request(&admin, "GET", "/ready", "", "").0, 200);

        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        let log = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{log}");
        assert!(!log.contains("panicked"), "{log}");
    }
}

/// A failing command also reports errors by its exit code, in case its messages cannot be written.
#[test]
fn a_failing_command_has_an_exit_code_without_standard_error() {
    let folder = tempfile::tempdir().unwrap();
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = command(folder.path(), &["verify"]);

    let status = command.stdout(full()).stderr(full()).status().unwrap();

    assert_eq!(status.code(), Some(1));
}
