//! A configuration file: what is said of one that cannot be read, and where its problems are.

use std::path::Path;

use settings::{Config, UnreadableConfig};

/// What an operator reads about a file with this text.
fn said(text: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.toml");
    std::fs::write(&path, text).unwrap();
    match Config::load_with(Some(&path), []) {
        Ok(config) => settings::listed(&config.all_problems()),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_file_that_is_not_toml_is_refused_with_its_place_and_without_its_values() {
    for (text, place) in [
        ("[http", "line 1, column 6"),
        ("[http]\nlisten = hunter2\n", "line 2, column 10"),
        ("\n\n  password = \"hunter2\n", "line 3"),
        ("a = 1\nä = \"hunter2\"", "line 2, column 1"),
        ("[mail]\npassword = \"hunter2\"\npassword = \"hunter2\"", "line 3, column 1"),
        ("[mail]\n[mail]\n", "line 2"),
        ("= hunter2", "line 1, column 1"),
        ("x = 1988-13-45", "line 1"),
    ] {
        let said = said(text.as_bytes());

        assert!(
            said.starts_with(&format!("the configuration cannot be read: {place}")),
            "{text}: {said}"
        );
        assert!(!said.contains("hunter2"), "{said}");
    }
}

#[test]
fn a_key_that_comes_twice_is_named() {
    let said = said(b"[mail]\npassword = \"a\"\npassword = \"b\"");

    assert!(said.ends_with(": duplicate key `password`"), "{said}");
}

#[test]
fn a_file_that_is_not_there_or_cannot_be_opened_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let said = |path: &Path| Config::load_with(Some(path), []).unwrap_err().to_string();

    assert_eq!(
        said(&folder.path().join("nobody.toml")),
        "the configuration cannot be read: there is no such file"
    );
    assert_eq!(said(folder.path()), "the configuration cannot be read: it is a folder, not a file");
    let path = folder.path().join("latin.toml");
    std::fs::write(&path, b"[brand]\nname = \"\xe4\"").unwrap();
    assert_eq!(said(&path), "the configuration cannot be read: it is not UTF-8");
}

#[test]
fn every_problem_says_in_which_line_its_key_is() {
    let text = "\
# A file.
[http]
public_base_url = \"nowhere\"
listn = 1

[http.timeouts]
head_ms = 0

[[packs]]
id = \"a\"
name = \"A\"
credits = 0
price_cents = 100

[[packs]]
id = \"a\"
name = \"\"
credits = 5
";

    let said = said(text.as_bytes());

    let (first, rest) = said.split_once('\n').unwrap();
    assert_eq!(first, "the configuration has problems:");
    let mut lines: Vec<&str> = rest.lines().map(str::trim).collect();
    lines.sort_unstable();
    let url = "must be a URL such as https://api.example.com, without a trailing slash";
    let expected = [
        "http.listn (line 4): is unknown; did you mean `listen`?".to_owned(),
        format!("http.public_base_url (line 3): {url}"),
        "http.timeouts.head_ms (line 7): must be 1 to 86,400,000".to_owned(),
        "packs[0].credits (line 12): must be 1 to 1,000,000,000".to_owned(),
        "packs[1].id (line 16): is the id of an earlier pack".to_owned(),
        "packs[1].name (line 17): must be 1 to 100 characters".to_owned(),
        "packs[1].price_cents (line 15): must be given".to_owned(),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn an_empty_file_is_the_default() {
    for text in ["", "\n\n", "# nothing\n", "\u{feff}"] {
        assert_eq!(said(text.as_bytes()), "", "{text:?}");
    }
}

#[test]
fn a_file_full_of_mistakes_is_reported_up_to_a_number() {
    let keys: Vec<String> = (0..500).map(|at| format!("wrong_{at} = 1\n")).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.toml");
    std::fs::write(&path, keys.concat()).unwrap();

    let refused = Config::load_with(Some(&path), []).unwrap_err();

    let UnreadableConfig::Values(problems) = refused else { panic!("{refused}") };
    assert_eq!(problems.len(), 100);
    assert!(problems.iter().all(|problem| problem.message.starts_with("is unknown")));
}

#[test]
fn what_is_printed_reads_back_and_hides_every_secret() {
    let text = "
        [http]
        allowed_hosts = [\"a.example\"]
        [processor]
        secret_key = \"hunter2\"
        webhook_secrets = [\"hunter2\", \"hunter2\"]
        [platforms.own]
        extends = \"platform_beta\"
        base_url = \"https://own.example\"
        signing = { key = \"hunter2\" }
        oauth = { client_secret = \"hunter2\" }
        [platforms.own.pacing]
        reads = { per_second = 0.5, burst = 3 }";
    let config = Config::from_toml(text).unwrap();

    let printed = config.to_toml().unwrap();
    let debugged = format!("{config:?}");

    assert!(!printed.contains("hunter2") && !debugged.contains("hunter2"), "{printed}");
    assert_eq!(Config::from_toml(&printed).unwrap().to_toml().unwrap(), printed);
    assert!(printed.contains("per_second = 0.5"), "{printed}");
}
