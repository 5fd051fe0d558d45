//! The configuration: the default file is complete, every key can be overridden, and no secret is
//! shown.
#![expect(clippy::unwrap_used, reason = "an unexpected value must fail the test")]

use std::collections::BTreeSet;

use settings::{Config, DEFAULT_TOML};

/// Secrets by their dotted names, whose values must never be shown.
const SECRETS: [&str; 9] = [
    "processor.secret_key",
    "processor.webhook_secrets",
    "database.url",
    "mail.password",
    "secrets.master_keys",
    "admin.token",
    "platforms.platform_beta.signing.key",
    "platforms.platform_delta.oauth.client_secret",
    "platforms.platform_alpha.signing.key",
];

/// All keys of a table by their dotted names, with their values; tables in lists count as values.
fn leaves(prefix: &str, table: &toml::Table) -> Vec<(String, toml::Value)> {
    let mut found = Vec::new();
    for (key, value) in table {
        let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match value {
            toml::Value::Table(inner) => found.extend(leaves(&name, inner)),
            value => found.push((name, value.clone())),
        }
    }
    found
}

fn defaults() -> Vec<(String, toml::Value)> {
    leaves("", &DEFAULT_TOML.parse().unwrap())
}

/// TOML text that sets one key.
fn setting(name: &str, value: &str) -> String {
    format!("{name} = {value}\n")
}

/// The default file without one key.
fn without(name: &str) -> String {
    fn remove(table: &mut toml::Table, steps: &[&str]) {
        match steps {
            [key] => drop(table.remove(*key).unwrap()),
            [key, rest @ ..] => remove(table[*key].as_table_mut().unwrap(), rest),
            [] => {}
        }
    }
    let mut table: toml::Table = DEFAULT_TOML.parse().unwrap();
    remove(&mut table, &name.split('.').collect::<Vec<_>>());
    table.to_string()
}

/// Each key of the file is a field and each field is in the file: without one of them, the error
/// names it.
#[test]
fn the_default_file_has_exactly_the_fields_of_the_configuration() {
    let all = defaults();
    assert!(all.len() > 100, "{}", all.len());
    let default = Config::from_toml("").unwrap();
    let written: toml::Table = default.to_toml().unwrap().parse().unwrap();
    for (name, _) in leaves("", &written) {
        let is_shown = all.iter().any(|(shown, _)| *shown == name);
        assert!(is_shown || is_of_later_platform(&name), "{name} is not in the default file");
    }

    for (name, _) in all {
        let text = without(&name);
        let parsed: Result<Config, toml::de::Error> = toml::from_str(&text);
        let missed = match parsed {
            Err(missed) => missed.to_string(),
            // What only the first platform has to say is the same where it is left out.
            Ok(config) if name.starts_with("platforms.platform_alpha.") => {
                assert_eq!(format!("{config:?}"), format!("{default:?}"), "{name}");
                continue;
            }
            // A platform that is not named includes no accounts and sells no slots.
            Ok(_) if name.starts_with("slots.included.") || name.starts_with("slots.prices.") => {
                continue;
            }
            Ok(_) => panic!("{name} is not missed"),
        };
        let key = name.rsplit('.').next().unwrap();
        assert!(missed.contains(&format!("missing field `{key}`")), "{name}: {missed}");
    }
}

/// The other platforms need not repeat what the first one shows.
fn is_of_later_platform(name: &str) -> bool {
    name.starts_with("platforms.") && !name.starts_with("platforms.platform_alpha.")
}

/// Whether a dotted name ends with this key.
fn is_key(name: &str, key: &str) -> bool {
    name.rsplit('.').next() == Some(key)
}

/// A value for this field that differs from the default.
fn another(name: &str, value: &toml::Value) -> String {
    match (name, value) {
        ("http.listen" | "admin.listen" | "admin.probe_listen", _) => "127.0.0.9:9".to_owned(),
        (name, _) if is_key(name, "unlisted_routes") => "refuse".to_owned(),
        (name, _) if is_key(name, "catalog_mode") => "replace".to_owned(),
        ("log.format", _) => "json".to_owned(),
        (_, toml::Value::Boolean(value)) => (!value).to_string(),
        (_, toml::Value::Integer(value)) => (value + 7).to_string(),
        (_, toml::Value::Float(value)) => (value + 7.5).to_string(),
        (name, toml::Value::Array(_)) if name.ends_with(".headers") || is_key(name, "query") => {
            "[{ name = \"X-Other\", value = \"other\" }]".to_owned()
        }
        (name, toml::Value::Array(_)) if is_key(name, "parts") => {
            "[{ name = \"a\", from = \"method\" }]".to_owned()
        }
        (name, toml::Value::Array(_)) if is_key(name, "hosts") => {
            "[{ path = \"a/\", base_url = \"https://a.example\" }]".to_owned()
        }
        ("packs", _) => "[{ id = \"p\", name = \"P\", credits = 1, price_cents = 50 }]".to_owned(),
        ("plans", _) => "[]".to_owned(),
        (_, toml::Value::Array(_)) => "417,418".to_owned(),
        (_, value) => format!("{}0012", value.as_str().unwrap()),
    }
}

/// The configuration as text, including secrets.
fn written(config: &Config, name: &str) -> String {
    use secrecy::ExposeSecret as _;
    let all: Vec<_> = config.platforms.iter().map(|(_, section)| section).collect();
    match name {
        "database.url" => config.database.url.expose_secret().to_owned(),
        "mail.password" => config.mail.password.expose_secret().to_owned(),
        "processor.secret_key" => config.processor.secret_key.expose_secret().to_owned(),
        "processor.webhook_secrets" => {
            let secrets = config.processor.webhook_secrets.iter();
            secrets.map(|secret| secret.expose_secret().to_owned() + ",").collect()
        }
        "admin.token" => config.admin.token.expose_secret().to_owned(),
        "storage.secret_access_key" => config.storage.secret_access_key.expose_secret().to_owned(),
        "secrets.master_keys" => config
            .secrets
            .master_keys
            .iter()
            .map(|key| key.expose_secret().to_owned() + ",")
            .collect(),
        name if name.ends_with(".signing.key") => {
            all.iter().map(|one| one.signing.key.expose_secret()).collect()
        }
        name if name.ends_with(".values.url") => {
            all.iter().map(|one| one.signing.values.url.expose_secret()).collect()
        }
        name if is_key(name, "proxy") => all.iter().map(|one| one.proxy.expose_secret()).collect(),
        name if name.ends_with(".client_secret") => {
            all.iter().map(|one| one.oauth.client_secret.expose_secret()).collect()
        }
        _ => format!("{config:#?}"),
    }
}

/// Each variable changes its own key: the result equals that of a file with the same value.
#[test]
fn every_key_is_overridden_by_its_environment_variable() {
    let default = Config::from_toml("").unwrap();
    // A built-in platform extends none.
    let may_change = |(name, _): &(String, toml::Value)| !is_key(name, "extends");
    for (name, value) in defaults().into_iter().filter(may_change) {
        let variable = format!("CREATOR_GATEWAY__{}", name.replace('.', "__").to_uppercase());
        let text = another(&name, &value);

        let config = Config::load_with(None, [(variable.clone(), text.clone())]);

        let config = config.unwrap_or_else(|error| panic!("{variable}={text}: {error}"));
        let in_a_file = match &value {
            toml::Value::Array(_) if text.starts_with('[') => text,
            toml::Value::Array(_) => "[\"417\", \"418\"]".to_owned(),
            toml::Value::String(_) => format!("\"{text}\""),
            _ => text,
        };
        let by_file = Config::from_toml(&setting(&name, &in_a_file)).unwrap();
        assert_eq!(written(&config, &name), written(&by_file, &name), "{variable}");
        assert_ne!(written(&config, &name), written(&default, &name), "{variable}");
    }
}

/// A secret that looks like a number is kept as text.
#[test]
fn a_secret_that_looks_like_a_number_stays_text() {
    use secrecy::ExposeSecret as _;
    for text in ["0012", "1e5", "true", "+1", "0x10", " a "] {
        let variable = "CREATOR_GATEWAY__PLATFORMS__PLATFORM_BETA__SIGNING__KEY".to_owned();
        let config = Config::load_with(None, [(variable, text.to_owned())]).unwrap();
        assert_eq!(
            config
                .platforms
                .get(domain::platform::Platform::BETA)
                .unwrap()
                .signing
                .key
                .expose_secret(),
            text
        );
    }
}

#[test]
fn the_environment_overrides_the_file_and_the_file_the_defaults() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.toml");
    std::fs::write(&file, "[credits]\nread = 3\nwrite = 4\n").unwrap();
    let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());

    let variables = [
        set("CREATOR_GATEWAY__CREDITS__WRITE", "5"),
        set("CREATOR_GATEWAY__CREDITS__EXPORT", ""),
        set("CREATOR_GATEWAY_TEST_SOMETHING", "of somebody else"),
    ];
    let config = Config::load_with(Some(&file), variables).unwrap();

    assert_eq!((config.credits.read, config.credits.write, config.credits.export), (3, 5, 10));
}

#[test]
fn a_wrong_variable_is_refused_without_showing_its_value() {
    for (variable, text) in [
        ("CREATOR_GATEWAY__HTTP__LISTN", "hunter2"),
        ("CREATOR_GATEWAY__HTTP", "hunter2"),
        ("CREATOR_GATEWAY__HTTP__ALLOWED_HOSTS", "[hunter2"),
    ] {
        let refused = Config::load_with(None, [(variable.to_owned(), text.to_owned())]);
        let refused = refused.map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains(variable) && !refused.contains("hunter2"), "{refused}");
    }
    let words = [("CREATOR_GATEWAY__CREDITS__READ".to_owned(), "many".to_owned())];
    let refused = Config::load_with(None, words).map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains("credits.read"), "{refused}");
}

#[test]
fn an_unknown_key_is_refused_in_any_table() {
    let tables: BTreeSet<String> = defaults()
        .into_iter()
        .filter_map(|(name, _)| Some(name.rsplit_once('.')?.0.to_owned()))
        .collect();

    for table in tables {
        let refused = Config::from_toml(&setting(&format!("{table}.no_such_key"), "1"));
        let refused = refused.map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("no_such_key"), "{table}: {refused}");
    }
    assert!(Config::from_toml("[no_such_section]\na = 1").is_err());
}

/// The default file explains what it contains: each group of keys has a comment above it.
#[test]
fn every_section_of_the_default_file_is_explained() {
    let mut commented = false;
    for line in DEFAULT_TOML.lines() {
        if line.starts_with('#') {
            commented = true;
        } else if line.is_empty() {
            commented = false;
        } else if line.contains('=')
            && !line.starts_with([' ', '['])
            && !in_platform_after_alpha(line)
        {
            assert!(commented, "no comment above: {line}");
        }
    }
}

/// The other platforms repeat the keys that the first one explains.
fn in_platform_after_alpha(line: &str) -> bool {
    let beta = DEFAULT_TOML.find("[platforms.platform_beta]").unwrap();
    let headers = DEFAULT_TOML.find("[platforms.platform_alpha]").unwrap();
    let at = line.as_ptr() as usize - DEFAULT_TOML.as_ptr() as usize;
    at > beta || at > headers && line.starts_with(['p', 'h'])
}

#[test]
fn printing_the_configuration_shows_no_secret() {
    let hidden = "hunter2hunter2";
    let mut toml = String::new();
    for (index, name) in SECRETS.iter().enumerate() {
        let value = match *name {
            "database.url" => format!("\"postgres://user:{hidden}{index}@db/x\""),
            "secrets.master_keys" => format!("[\"1:{hidden}{index}\"]"),
            "processor.webhook_secrets" => format!("[\"{hidden}{index}\"]"),
            _ => format!("\"{hidden}{index}\""),
        };
        toml.push_str(&setting(name, &value));
    }

    let config = Config::from_toml(&toml).unwrap();

    let shown = format!("{config:#?}");
    assert!(!shown.contains(hidden), "{shown}");
    let problems = format!("{:?}", config.problems());
    assert!(!problems.contains(hidden), "{problems}");
    assert!(shown.contains("public_base_url"), "values that are not secret must be shown");
}

/// Keys named like secrets are hidden, including ones added later.
#[test]
fn every_key_named_like_a_secret_is_hidden() {
    for (name, value) in defaults() {
        let key = name.rsplit('.').next().unwrap();
        let sounds_secret =
            ["key", "secret_key", "token", "secret", "client_secret", "password"].contains(&key);
        if !sounds_secret || !value.is_str() {
            continue;
        }
        let config = Config::from_toml(&setting(&name, "\"hunter2hunter2\"")).unwrap();
        assert!(!format!("{config:#?}").contains("hunter2hunter2"), "{name} is printed");
        assert!(SECRETS.contains(&name.as_str()) || name.starts_with("platforms."), "{name}");
    }
}

#[test]
fn postgresql_needs_master_keys_and_sqlite_does_not() {
    let postgres = Config::from_toml("[database]\nurl = \"postgres://db/x\"").unwrap();
    let sqlite = Config::from_toml("[database]\nurl = \"sqlite:x.db\"").unwrap();

    let problems: Vec<String> = postgres.problems().iter().map(ToString::to_string).collect();

    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(
        problems[0].starts_with("secrets.master_keys: is required with PostgreSQL"),
        "{problems:?}"
    );
    assert!(
        problems[0].contains("openssl rand -base64 32"),
        "the problem must say what to do: {problems:?}"
    );
    assert_eq!(sqlite.problems(), []);
}

#[test]
fn all_problems_of_all_sections_are_reported_together() {
    let toml = "
        [http]
        public_base_url = \"https://api.example.com/\"
        trusted_proxies = [\"10.0.0.0/8\", \"10.0.0.0/40\", \"proxy\"]
        tls = { certificate_file = \"a.pem\", key_file = \"\" }
        [http.limits]
        head_bytes_max = 0
        native_bodies_bytes_max = 1
        [database]
        url = \"mysql://x\"
        connections_max = 1
        [secrets]
        master_keys = [\"short\"]
        [credits]
        read = 0
        trial = -1
        [slots.included]
        platform_beta = -1
        [rate_limits]
        per_key_burst = 0
        [metering]
        batch_max = 0
        hold_ttl_s = 5
        node = \"one\"
        [platforms.platform_beta]
        base_url = \"http://127.0.0.1:1\"
        timeouts = { connect_ms = 0, tls_ms = 1, first_byte_ms = 1, between_bytes_ms = 1, stream_idle_ms = 0 }
        response_headers = [\"Link\", \"Set-Cookie\"]
        [log]
        filter = \"no such=filter=\"
    ";

    let config = Config::from_toml(toml).unwrap();
    let keys: BTreeSet<String> =
        config.all_problems().into_iter().map(|problem| problem.key).collect();

    for key in [
        "http.public_base_url",
        "http.trusted_proxies[1]",
        "http.trusted_proxies[2]",
        "http.tls",
        "http.limits.head_bytes_max",
        "http.limits.native_bodies_bytes_max",
        "database.url",
        "database.connections_max",
        "secrets.master_keys[0]",
        "credits.read",
        "credits.trial",
        "slots.included.platform_beta",
        "rate_limits.per_key_burst",
        "metering.batch_max",
        "metering.hold_ttl_s",
        "metering.node",
        "platforms.platform_beta.signing.key",
        "platforms.platform_beta.timeouts.connect_ms",
        "platforms.platform_beta.timeouts.stream_idle_ms",
        "platforms.platform_beta.response_headers[1]",
    ] {
        assert!(keys.contains(key), "{key} is not reported: {keys:?}");
    }
}

/// Otherwise the header would be missing from every call, and the platform would refuse them all.
#[test]
fn a_template_with_an_unknown_credential_is_refused_with_the_known_ones() {
    let toml = "
        [platforms.platform_alpha]
        base_url = \"http://127.0.0.1:1\"
        headers = [{ name = \"Authorization\", value = \"Session {session_tokn}\" }]
        [platforms.platform_gamma]
        base_url = \"http://127.0.0.1:1\"
        verify_route = { path = \"user/{id}\", id_pointer = \"/_id\", equals_field = \"extra.x\", accepted_statuses = [] }
    ";

    let config = Config::from_toml(toml).unwrap();
    let problems: Vec<String> = config.all_problems().iter().map(ToString::to_string).collect();

    assert_eq!(
        problems,
        [
            "platforms.platform_alpha.headers[0].value: the header authorization names {session_tokn}, which no \
             account of platform_alpha has; known are user_id, session_token, user_agent, extra.NAME and, in headers, \
             call_id",
            "platforms.platform_gamma.verify_route.path: it names {id}, which no account of platform_gamma has; known \
             are token, resource, account_id and, in headers, call_id",
            "platforms.platform_gamma.verify_route.equals_field: it names {extra.x}, which no account of \
             platform_gamma has; known are token, resource, account_id and, in headers, call_id",
        ]
    );
}

/// A service with an invalid configuration does not start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_configuration_prevents_the_start() {
    let mut app = test_service::TestApp::on_sqlite("").await;
    app.stop_service().await;

    let refused = app.start_service(|config| config.credits.read = 0).await.unwrap_err();

    assert!(refused.contains("credits.read: must be 1 to 1,000,000"), "{refused}");
    app.start_service(|_| ()).await.unwrap();
    app.end().await;
}
