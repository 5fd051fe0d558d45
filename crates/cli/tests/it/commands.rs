//! Commands that print something and end: the contract, the configuration, the database, the
//! catalogue.

use std::path::Path;
use std::process::Stdio;

use crate::process::{Running, command, fails, get, ok, run, run_with};

fn here() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn openapi_prints_the_committed_contract() {
    let written = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../openapi.json");

    let printed = ok(here().path(), &["openapi"]);

    assert_eq!(printed, std::fs::read_to_string(written).unwrap());
}

#[test]
fn openapi_prints_the_documents_of_platforms_in_both_versions() {
    let folder = here();
    let printed = |options: &[&str]| -> serde_json::Value {
        let text = ok(folder.path(), &[&["openapi"], options].concat());
        serde_json::from_str(&text).unwrap()
    };
    let operation = "/paths/~1v1~1{account}~1native~1users~1me/get/x-route";

    for (version, expected) in [("3.1", "3.1.0"), ("3.0", "3.0.3")] {
        let platform = printed(&["--platform", "platform_alpha", "--version", version]);
        let whole = printed(&["--all", "--version", version]);

        for document in [&platform, &whole] {
            assert_eq!(document["openapi"], expected);
            assert_eq!(document.pointer(operation).unwrap(), "GET users/me");
        }
        assert!(platform["paths"].get("/v1/billing").is_none());
        assert!(whole["paths"].get("/v1/billing").is_some());
    }
    let unknown = fails(folder.path(), &["openapi", "--platform", "platform_omega"]);
    assert!(unknown.contains("platform_omega"), "{unknown}");
    let (code, _, explained) = run(folder.path(), &["openapi", "--version", "2.0"]);
    assert_eq!(code, 2);
    assert!(explained.contains("the versions are 3.1 and 3.0"), "{explained}");
}

/// A closed pipe, as in `creator-gateway openapi | head`, is not an error.
#[test]
fn a_closed_pipe_is_not_a_failure() {
    for arguments in [&["openapi"][..], &["catalog", "list"], &["check-config"]] {
        let mut child = command(here().path(), arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
    }
}

#[test]
fn check_config_shows_the_configuration_in_force_without_secrets() {
    let folder = here();
    let variables = [
        ("CREATOR_GATEWAY__ADMIN__TOKEN", "hunter2-0123456789abcdef"),
        ("CREATOR_GATEWAY__PROCESSOR__SECRET_KEY", ""),
        ("CREATOR_GATEWAY__DATABASE__URL", "sqlite:own.db"),
        ("CREATOR_GATEWAY__CREDITS__READ", "3"),
        ("CREATOR_GATEWAY__HTTP__TRUSTED_PROXIES", "10.0.0.0/8, 192.0.2.1"),
        ("CREATOR_GATEWAY__PLATFORMS__PLATFORM_BETA__SIGNING__KEY", "0012hunter2"),
    ];

    let (code, out, err) = run_with(folder.path(), &variables, &["check-config"]);

    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(!out.contains("hunter2"), "{out}");
    assert!(out.contains("\nread = 3\n") && out.contains("\"192.0.2.1\""), "{out}");
    assert!(out.contains("\nurl = \"sqlite:own.db\"\n"), "{out}");
    assert!(out.ends_with("no problems\n"), "{out}");
}

/// The printed configuration is complete; only the secrets must be added to use it.
#[test]
fn check_config_prints_an_equivalent_configuration() {
    let folder = here();
    let variables = [("CREATOR_GATEWAY__HTTP__CORES", "3"), ("CREATOR_GATEWAY__MAIL__USER", "ada")];
    let (_, printed, _) = run_with(folder.path(), &variables, &["check-config"]);
    assert!(!printed.contains("<hidden>"), "{printed}");
    std::fs::write(folder.path().join("printed.toml"), &printed).unwrap();

    let (code, twice, err) =
        run_with(folder.path(), &[], &["check-config", "--config", "printed.toml"]);

    assert_eq!((code, err.as_str()), (0, ""), "{twice}");
    assert_eq!(twice, printed);
    assert!(twice.contains("\ncores = 3\n") && twice.contains("\nuser = \"ada\"\n"), "{twice}");
}

#[test]
fn check_config_reports_every_problem_and_fails() {
    let folder = here();
    std::fs::write(
        folder.path().join("bad.toml"),
        "[credits]\nread = 0\n[metering]\nhold_ttl_s = 1\n",
    )
    .unwrap();

    let (code, _, said) = run(folder.path(), &["check-config", "--config", "bad.toml"]);

    assert_eq!(code, 1);
    assert!(
        said.contains(
            "2 problem(s):\n  credits.read (line 2): must be 1 to 1,000,000\n  \
             metering.hold_ttl_s (line 4): "
        ),
        "{said}"
    );
    let (mistaken, _, err) =
        run_with(folder.path(), &[("CREATOR_GATEWAY__HTTP__LISTN", "x")], &["check-config"]);
    assert_eq!(mistaken, 1);
    let nearest = "is unknown; did you mean `CREATOR_GATEWAY__HTTP__LISTEN`?";
    assert!(err.contains(&format!("CREATOR_GATEWAY__HTTP__LISTN: {nearest}")), "{err}");
}

/// Unknown names, unreadable values and wrong values, of the file and of the environment.
#[test]
fn check_config_reports_every_mistake_in_one_run() {
    let folder = here();
    let bad = "[http]\nlistn = \"127.0.0.1:1\"\ncores = \"many\"\n[credits]\nread = 0\nwriet = 1\n";
    std::fs::write(folder.path().join("bad.toml"), bad).unwrap();
    let variables =
        [("CREATOR_GATEWAY__JOBS__POL_MS", "5"), ("CREATOR_GATEWAY__JOBS__POLL_MS", "5")];

    let (code, out, err) =
        run_with(folder.path(), &variables, &["check-config", "--config", "bad.toml"]);

    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    for problem in [
        "6 problem(s):\n",
        "\n  CREATOR_GATEWAY__JOBS__POL_MS: is unknown; did you mean `CREATOR_GATEWAY__JOBS__POLL_MS`?\n",
        "\n  http.listn (line 2): is unknown; did you mean `listen`?\n",
        "\n  http.cores (line 3): ",
        "\n  credits.writet",
        "\n  credits.read (line 5): must be 1 to 1,000,000\n",
        "\n  jobs.poll_ms (CREATOR_GATEWAY__JOBS__POLL_MS): must be 100 to 3,600,000\n",
    ] {
        assert!(
            err.contains(
                &problem.replace("writet", "wriet (line 6): is unknown; did you mean `write`?")
            ),
            "{problem}: {err}"
        );
    }
}

/// A file that is not TOML is refused with the place. What stands there may be a secret.
#[test]
fn a_syntax_error_is_reported_without_the_line_it_is_in() {
    let folder = here();
    let at = "[platforms.platform_beta.signing]\nkey = \"hunter2 \nclient_id = \"x\"\n";
    let twice = "[processor]\nsecret_key = \"hunter2\"\nsecret_key = \"hunter2\"\n";
    for (bad, said) in
        [(at, "line 2, column "), (twice, "line 3, column 1: duplicate key `secret_key`")]
    {
        std::fs::write(folder.path().join("bad.toml"), bad).unwrap();
        for command in ["check-config", "serve"] {
            let refused = fails(folder.path(), &[command, "--config", "bad.toml"]);

            assert!(refused.contains(said), "{refused}");
            assert!(!refused.contains("hunter2"), "{refused}");
        }
    }
}

/// The log's filter is checked as well; the service does not start with one that it cannot parse.
#[test]
fn a_malformed_log_filter_is_refused() {
    let folder = here();
    let bad = "[log]\nfilter = \"[[[\"\n[credits]\nread = 0\n";
    std::fs::write(folder.path().join("bad.toml"), bad).unwrap();

    let (code, _, said) = run(folder.path(), &["check-config", "--config", "bad.toml"]);

    assert_eq!(code, 1);
    assert!(said.starts_with("2 problem(s):\n"), "{said}");
    assert!(said.contains("\n  log.filter (line 2): must be a level such as info"), "{said}");
    let refused = fails(folder.path(), &["serve", "--config", "bad.toml"]);
    assert!(refused.contains("log.filter"), "{refused}");
}

/// A service that may not migrate says what is missing and what to do, on a new database and on an
/// old one.
#[test]
fn a_service_that_may_not_migrate_names_the_command_that_does() {
    let folder = here();
    let folder = folder.path();
    let config = "[http]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n\
        [database]\nmigrate_at_start = false\n";
    std::fs::write(folder.join("gateway.toml"), config).unwrap();
    let serve = || fails(folder, &["serve", "--config", "gateway.toml"]);

    let on_empty = serve();
    ok(folder, &["migrate", "--config", "gateway.toml"]);
    let forget = "import sqlite3; d = sqlite3.connect('creator-gateway.db'); \
        d.execute('delete from _sqlx_migrations where version > 12'); d.commit()";
    let done =
        std::process::Command::new("python3").args(["-c", forget]).current_dir(folder).status();
    assert!(done.unwrap().success());
    let on_old = serve();

    for (said, applied) in [(on_empty, 0), (on_old, 12)] {
        assert!(said.contains(&format!(": {applied} of ")), "{said}");
        assert!(
            said.contains("run `creator-gateway migrate` with the same configuration"),
            "{said}"
        );
    }
}

/// Migrating is idempotent, and can be turned off at the start of the service.
#[test]
fn migrate_brings_the_database_up_to_date() {
    let folder = here();
    let folder = folder.path();

    assert_eq!(ok(folder, &["migrate"]), "the database is up to date\n");
    assert_eq!(ok(folder, &["migrate"]), "the database is up to date\n");

    assert_eq!(ok(folder, &["verify"]), "the ledger is consistent: no invariant is violated\n");
}

#[test]
fn the_simulated_platforms_run_alone() {
    let folder = here();
    let mut simulators = Running::start(command(
        folder.path(),
        &["simulators", "--json", "--listen", "127.0.0.1:0"],
    ));
    let facts: serde_json::Value = serde_json::from_str(&simulators.line()).unwrap();

    let seen = get(
        facts["simulators_url"].as_str().unwrap(),
        "/control/requests?platform=platform_alpha",
        "",
    );

    assert!(seen["requests"].is_array(), "{seen}");
    assert_eq!(simulators.stop("TERM").0, 0);
}

/// The output is all that the configuration of a service needs to reach each platform.
#[test]
fn the_simulators_print_what_a_service_needs_to_reach_each_platform() {
    let folder = here();
    let folder = folder.path();
    let arguments = ["simulators", "--json", "--listen", "127.0.0.1:0"];
    let mut simulators = Running::start(command(folder, &arguments));
    let facts: serde_json::Value = serde_json::from_str(&simulators.line()).unwrap();
    let platforms = facts["platforms"].as_object().unwrap_or_else(|| panic!("{facts}"));
    let names: Vec<&str> = platforms.keys().map(String::as_str).collect();
    assert_eq!(names, ["platform_alpha", "platform_beta", "platform_delta", "platform_gamma"]);
    let line = |pointer: &str| {
        let value = facts.pointer(pointer).unwrap_or_else(|| panic!("{pointer} is not in {facts}"));
        format!("{} = {value}\n", pointer.rsplit('/').next().unwrap())
    };
    let mut config = Vec::new();
    for name in names {
        let url = line(&format!("/platforms/{name}/base_url"));
        config.push(format!("[platforms.{name}]\n{url}"));
    }
    for (table, members) in [
        ("platform_beta/signing", &["scheme", "key", "client_id", "client_version"][..]),
        ("platform_delta/oauth", &["token_url", "client_id", "client_secret"]),
    ] {
        config.push(format!("[platforms.{}]\n", table.replace('/', ".")));
        config.extend(members.iter().map(|member| line(&format!("/platforms/{table}/{member}"))));
    }
    for table in ["processor", "mail"] {
        config.push(format!("[{table}]\n"));
        let members = facts[table].as_object().unwrap_or_else(|| panic!("{facts}"));
        config.extend(members.keys().map(|member| line(&format!("/{table}/{member}"))));
    }
    let config = config.concat();
    std::fs::write(folder.join("gateway.toml"), &config).unwrap();

    let said = ok(folder, &["check-config", "--config", "gateway.toml"]);

    assert!(said.ends_with("no problems\n"), "{said}\n{config}");
    assert_eq!(simulators.stop("TERM").0, 0);
}

#[test]
fn help_describes_the_program_and_its_commands() {
    let (code, out, _) = run(here().path(), &["--help"]);

    assert_eq!(code, 0);
    assert!(out.starts_with("A gateway to four creator platforms, metered in credits\n"), "{out}");
    for command in
        ["sandbox", "serve", "migrate", "verify", "catalog", "admin", "openapi", "check-config"]
    {
        assert!(out.contains(command), "{command}: {out}");
    }
}

#[test]
fn manual_pages_name_every_command() {
    let folder = here();
    let pages = folder.path().join("pages");
    std::fs::create_dir(&pages).unwrap();

    ok(folder.path(), &["man", "--output", "pages"]);

    let page = |name: &str| std::fs::read_to_string(pages.join(name)).unwrap();
    let first = page("creator-gateway.1");
    for command in ["serve", "sandbox", "migrate", "verify", "check-config", "admin"] {
        let name = format!("creator-gateway-{command}.1");
        assert!(page(&name).contains(".SH SYNOPSIS"), "{name}");
        assert!(first.contains(&format!("creator\\-gateway\\-{}", command.replace('-', "\\-"))));
    }
    let missing = fails(folder.path(), &["man", "--output", "nowhere"]);
    assert!(missing.contains("nowhere"), "{missing}");
}

#[test]
fn completions_are_printed_for_the_known_shells() {
    let folder = here();
    for shell in ["bash", "zsh", "fish"] {
        let printed = ok(folder.path(), &["completions", shell]);
        assert!(printed.contains("check-config"), "{shell}");
    }
    let (code, _, explained) = run(folder.path(), &["completions", "cmd"]);
    assert_eq!(code, 2);
    assert!(explained.contains("possible values"), "{explained}");
}
