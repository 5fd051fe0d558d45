//! `sandbox`: everything in one command, which keeps its state in its folder and stops when told
//! to.

use std::path::Path;

use serde_json::Value;

use crate::process::{Running, command, get, ok, request, run};

const READS: [(&str, &str); 4] = [
    ("platform_alpha", "users/me"),
    ("platform_beta", "account/me"),
    ("platform_gamma", "me"),
    ("platform_delta", "notifications"),
];

fn start(data: &Path) -> (Running, Value) {
    let data = data.to_str().unwrap();
    let arguments = ["sandbox", "--json", "--listen", "127.0.0.1:0", "--data", data];
    let mut sandbox = Running::start(command(Path::new("/"), &arguments));
    let line = sandbox.line();
    let facts = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
    (sandbox, facts)
}

fn text<'a>(facts: &'a Value, name: &str) -> &'a str {
    facts[name].as_str().unwrap_or_else(|| panic!("{name} is not in {facts}"))
}

fn native(facts: &Value, platform: &str, path: &str) -> String {
    format!("/v1/{}/native/{path}", text(&facts["accounts"], platform))
}

fn balance(facts: &Value) -> i64 {
    let billing = get(text(facts, "base_url"), "/v1/billing", text(facts, "read_only_key"));
    billing["balance"].as_i64().unwrap()
}

#[test]
fn the_json_line_describes_everything_and_all_of_it_works() {
    let folder = tempfile::tempdir().unwrap();
    let (sandbox, facts) = start(folder.path());
    let (base, key) = (text(&facts, "base_url"), text(&facts, "api_key"));

    for name in
        ["console_url", "simulators_url", "processor_url", "read_only_key", "customer", "accounts"]
    {
        assert!(facts.get(name).is_some(), "{name} is not in {facts}");
    }
    assert!(facts["customer"]["email"].is_string() && facts["customer"]["password"].is_string());
    assert_eq!(text(&facts, "console_url"), format!("{base}/console"));
    let (led, redirect, _) = request(base, "GET", "/console", "", "");
    assert_eq!(led, 303, "{redirect}");
    let before = balance(&facts);
    for (platform, path) in READS {
        get(base, &native(&facts, platform, path), key);
    }
    let write = native(&facts, "platform_alpha", "chats/mark-as-read");
    let (refused, _, _) = request(base, "POST", &write, text(&facts, "read_only_key"), "{}");
    let (status, head, body) = request(base, "POST", &write, key, "{}");
    assert_eq!((refused, status), (403, 200), "{body}");
    assert!(head.contains("x-credits-cost: 2"), "{head}");
    assert_eq!(balance(&facts), before - 6);

    let (code, rest) = sandbox.stop("INT");
    assert_eq!((code, rest.as_str()), (0, ""), "one line and nothing else");
}

/// Keys, the balance, and the state of the simulated platforms survive a restart.
#[test]
fn a_second_start_on_the_same_folder_continues_where_the_first_ended() {
    let folder = tempfile::tempdir().unwrap();
    let (sandbox, first) = start(folder.path());
    let lists = native(&first, "platform_alpha", "lists");
    let (base, key) = (text(&first, "base_url"), text(&first, "api_key"));
    let (status, _, body) = request(base, "POST", &lists, key, r#"{"name":"kept over night"}"#);
    assert!(status < 300, "{status} {body}");
    let left = balance(&first);
    assert_eq!(sandbox.stop("TERM").0, 0);

    let (again, second) = start(folder.path());

    for name in ["api_key", "read_only_key", "accounts", "customer", "data"] {
        assert_eq!(second[name], first[name], "{name}");
    }
    assert_eq!(balance(&second), left);
    let shown = get(text(&second, "base_url"), &lists, text(&second, "api_key"));
    assert!(shown.to_string().contains("kept over night"), "{shown}");
    assert_eq!(again.stop("INT").0, 0);
    let said = ok(folder.path(), &["verify", "--data", "."]);
    assert_eq!(said, "the ledger is consistent: no invariant is violated\n");
}

/// A secret that was rotated is not printed again: the next start creates keys that work.
#[test]
fn a_rotated_key_is_replaced_at_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let (sandbox, first) = start(folder.path());
    let (base, key) = (text(&first, "base_url"), text(&first, "api_key"));
    let (status, _, body) = request(base, "POST", "/v1/auth/keys/rotate", key, "{}");
    assert_eq!(status, 200, "{body}");
    assert_eq!(sandbox.stop("TERM").0, 0);

    let (again, second) = start(folder.path());

    let (base_again, fresh) = (text(&second, "base_url"), text(&second, "api_key"));
    assert_ne!(fresh, key);
    assert_eq!(second["read_only_key"], first["read_only_key"], "this key still works");
    let who = get(base_again, "/v1/whoami", fresh);
    assert_eq!(who["scope"], "full", "{who}");
    assert_eq!(again.stop("TERM").0, 0);
    let (third, facts) = start(folder.path());
    assert_eq!(facts["api_key"], second["api_key"], "and it is remembered");
    assert_eq!(third.stop("INT").0, 0);
}

#[test]
fn the_text_output_has_lines_to_copy_and_says_how_to_stop() {
    let arguments = ["sandbox", "--listen", "127.0.0.1:0"];
    let mut sandbox = Running::start(command(Path::new("/"), &arguments));
    let mut said = String::new();
    while !said.ends_with("Press Ctrl-C to stop.\n") {
        let line = sandbox.line();
        assert!(!line.is_empty(), "it ended: {said}");
        said.push_str(&line);
    }

    assert!(said.starts_with("creator-gateway sandbox is ready\n"), "{said}");
    let first = said.lines().find(|line| line.contains("http://")).unwrap();
    assert!(first.contains("Console") && first.ends_with("/console"), "the console first: {said}");
    assert_eq!(said.matches("export CGW_KEY=cgw_live_").count(), 1, "{said}");
    assert_eq!(said.matches("cgw_live_").count(), 2, "each key once: {said}");
    assert_eq!(said.lines().filter(|line| line.starts_with("  curl ")).count(), 5, "{said}");
    let data = said.lines().find_map(|line| line.trim().strip_prefix("Data ")).unwrap().trim();
    assert!(Path::new(data).exists(), "{data}");
    let data = data.to_owned();
    assert!(
        said.contains("\n  Sign in     demo@example.com with the password sandbox-password\n"),
        "{said}"
    );
    let log = said.lines().find_map(|line| line.trim().strip_prefix("Log ")).unwrap();
    assert!(log.trim().starts_with(&format!("{data}/gateway.log ")), "{log}");
    assert_eq!(sandbox.stop("INT").0, 0);
    assert!(!Path::new(&data).exists(), "the temporary folder is deleted at the end");
}

#[test]
fn only_the_owner_can_read_the_secrets_of_the_folder() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let (sandbox, _facts) = start(folder.path());

    for file in [
        "sandbox.json",
        "creator-gateway.keys",
        "creator-gateway.db.admin",
        "gateway.log",
        "simulators/journal-platform_alpha.jsonl",
        "simulators/mail.jsonl",
    ] {
        let mode = std::fs::metadata(folder.path().join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    assert_eq!(sandbox.stop("INT").0, 0);
    assert!(!folder.path().join("creator-gateway.db.admin").exists());
}

#[test]
fn an_address_in_use_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();

    let folder = tempfile::tempdir().unwrap();
    let arguments = ["sandbox", "--listen", &address, "--data", "kept"];
    let (code, out, err) = run(folder.path(), &arguments);

    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(err.starts_with(&format!("error: {address} cannot be used for the gateway")), "{err}");
    assert!(err.contains("`--listen`"), "{err}");
    assert!(!folder.path().join("kept").exists(), "no folder is left behind");
}

/// The id of a response identifies its line in the log.
#[test]
fn each_request_has_one_line_in_the_sandboxs_log() {
    let folder = tempfile::tempdir().unwrap();
    let (sandbox, facts) = start(folder.path());
    let log = text(&facts, "log").to_owned();
    let base = text(&facts, "base_url");

    let (_, head, _) = request(base, "GET", "/v1/platforms", "", "");
    assert_eq!(sandbox.stop("TERM").0, 0);

    let id = head.lines().find_map(|line| line.strip_prefix("x-request-id: ")).unwrap();
    let lines = std::fs::read_to_string(log).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of_it = lines.iter().filter(|line| line["request.id"] == id).count();
    assert_eq!(of_it, 1, "{id}");
}
