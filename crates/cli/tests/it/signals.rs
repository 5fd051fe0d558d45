//! Signals from operators: SIGHUP reads files again and never ends a running command.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::process::{Running, command, request};

fn hang_up(running: &Running) {
    let pid = running.id().to_string();
    assert!(Command::new("kill").args(["-s", "HUP", &pid]).status().unwrap().success());
}

/// Waits until the log has `times` lines with this text.
fn logged(log: &Path, text: &str, times: usize) {
    while std::fs::read_to_string(log).unwrap().matches(text).count() < times {
        std::thread::yield_now();
    }
}

#[test]
fn sighup_reads_files_again_without_ending_the_sandbox() {
    let data = tempfile::tempdir().unwrap();
    let log = data.path().join("log");
    let place = data.path().to_str().unwrap();
    let arguments = ["sandbox", "--json", "--listen", "127.0.0.1:0", "--data", place];
    let mut command = command(Path::new("/"), &arguments);
    command.env("RUST_LOG", "info").stderr(std::fs::File::create(&log).unwrap());
    let mut sandbox = Running::start(command);
    let facts: Value = serde_json::from_str(&sandbox.line()).unwrap();
    let base = facts["base_url"].as_str().unwrap();

    for times in 1..=2 {
        hang_up(&sandbox);
        logged(&log, "SIGHUP", times);
        assert_eq!(request(base, "GET", "/health", "", "").0, 200);
    }

    assert_eq!(sandbox.stop("TERM").0, 0);
}

#[test]
fn sighup_does_not_end_the_simulators() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["simulators", "--json", "--listen", "127.0.0.1:0"];
    let mut simulators = Running::start(command(folder.path(), &arguments));
    let facts: Value = serde_json::from_str(&simulators.line()).unwrap();
    let base = facts["simulators_url"].as_str().unwrap();

    hang_up(&simulators);

    assert_eq!(request(base, "GET", "/control/requests?platform=platform_alpha", "", "").0, 200);
    assert_eq!(
        simulators.stop("TERM").0,
        0,
        "it was ended by the signal to stop, not by the one before"
    );
}

/// A service without platforms says so, and what to do; SIGHUP does not end it.
#[test]
fn a_service_without_platforms_says_what_to_do_and_survives_sighup() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let config = "[http]\nlisten = \"127.0.0.1:0\"\ncores = 1\n[admin]\nlisten = \"127.0.0.1:0\"\n\
        probe_listen = \"127.0.0.1:0\"\n[log]\nformat = \"json\"\n";
    std::fs::write(folder.join("gateway.toml"), config).unwrap();
    let mut command = command(folder, &["serve", "--config", "gateway.toml"]);
    let log = folder.join("log");
    command.stderr(std::fs::File::create(&log).unwrap());
    let service = Running::start(command);
    logged(&log, "the service is listening", 1);

    let text = std::fs::read_to_string(&log).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let warned = lines.iter().find(|line| line["level"] == "WARN").unwrap();
    let advice = warned["message"].as_str().unwrap();
    assert!(advice.contains("no platform is configured"), "{advice}");
    assert!(advice.contains("base_url") && advice.contains("creator-gateway sandbox"), "{advice}");
    let listening =
        lines.iter().find(|line| line["message"] == "the service is listening").unwrap();
    let probes = format!("http://{}", listening["probe_address"].as_str().unwrap());
    hang_up(&service);
    logged(&log, "SIGHUP", 1);
    assert_eq!(request(&probes, "GET", "/ready", "", "").0, 200);
    assert_eq!(service.stop("TERM").0, 0);
}

/// The files of the certificate are replaced by pipes without a writer.
#[test]
fn a_service_with_an_unreadable_certificate_continues_and_can_be_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../node/tests/it/edge");
    let (certificate, key) = (folder.join("own.pem"), folder.join("own.key.pem"));
    std::fs::copy(own.join("localhost.pem"), &certificate).unwrap();
    std::fs::copy(own.join("localhost.key.pem"), &key).unwrap();
    let config = "[http]\nlisten = \"127.0.0.1:0\"\ncores = 1\n[http.tls]\ncertificate_file = \"own.pem\"\n\
        key_file = \"own.key.pem\"\ncheck_every_s = 0\n[admin]\nlisten = \"127.0.0.1:0\"\n\
        probe_listen = \"127.0.0.1:0\"\n";
    std::fs::write(folder.join("gateway.toml"), config).unwrap();
    let mut command = command(folder, &["serve", "--config", "gateway.toml"]);
    let log = folder.join("log");
    command.stderr(std::fs::File::create(&log).unwrap());
    let service = Running::start(command);
    logged(&log, "the service is listening", 1);
    for file in [&certificate, &key] {
        std::fs::remove_file(file).unwrap();
        assert!(Command::new("mkfifo").arg(file).status().unwrap().success());
    }

    hang_up(&service);
    logged(&log, "it is not a regular file", 1);

    assert_eq!(service.stop("TERM").0, 0);
}
