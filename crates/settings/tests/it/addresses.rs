//! Texts that are addresses, files, words or lists: what each must look like.

use settings::Config;

use crate::{problems, said};

#[test]
fn the_public_address_is_a_host_where_links_can_begin() {
    let message = "must be a URL such as https://api.example.com, without a trailing slash";
    for url in [
        "",
        "api.example.com",
        "ftp://api.example.com",
        "https://",
        "https://api.example.com/",
        "https://api.example.com/base/",
        "https://api.example.com?x",
        "https://api.example.com#x",
        "https://ada@api.example.com",
        "https://ada:word@api.example.com",
        "https://api.example.com:",
        "https://api.example.com:99999",
        "https://api example.com",
        "//api.example.com",
    ] {
        let toml = format!("http.public_base_url = \"{url}\"");
        assert_eq!(said(&toml, "http.public_base_url").as_deref(), Some(message), "{url}");
    }
    for url in [
        "http://127.0.0.1:0",
        "https://api.example.com",
        "https://api.example.com:8443",
        "https://[2001:db8::1]:8443",
        "https://api.example.com/base",
    ] {
        assert_eq!(problems(&format!("http.public_base_url = \"{url}\"")), [], "{url}");
    }
}

#[test]
fn a_host_that_no_request_can_name_is_not_allowed() {
    let message =
        "must be a host, with its port if that is not the scheme's own, such as api.example.com";
    for host in [
        "",
        "https://api.example.com",
        "api.example.com/",
        "a b",
        "a@b",
        "a:",
        "a:x",
        "a:70000",
        "*",
    ] {
        let toml = format!("http.allowed_hosts = [\"good.example\", \"{host}\"]");
        let found = problems(&toml);
        // A star is a letter of a host for the library, and no more than that for requests.
        if host == "*" {
            assert_eq!(found, [], "{host}");
        } else {
            assert_eq!(found, [("http.allowed_hosts[1]".to_owned(), message.to_owned())], "{host}");
        }
    }
    let good = "http.allowed_hosts = [\"API.example.com\", \"a.example:8080\", \"[::1]\", \"[::1]:80\", \"127.0.0.1\"]";
    assert_eq!(problems(good), []);
}

#[test]
fn networks_of_proxies_are_named_one_by_one() {
    let toml = "http.trusted_proxies = [\"10.0.0.0/8\", \"proxy.example\", \"::1\", \"10.0.0.0/33\", \"\"]";

    let keys: Vec<String> = problems(toml).into_iter().map(|(key, _)| key).collect();

    assert_eq!(keys, [1, 3, 4].map(|at| format!("http.trusted_proxies[{at}]")));
}

#[test]
fn each_listener_needs_an_address_of_its_own() {
    for (toml, key, other) in [
        ("admin.listen = \"127.0.0.1:8080\"", "admin.listen", "http.listen"),
        ("http.listen = \"0.0.0.0:9090\"", "admin.listen", "http.listen"),
        ("http.listen = \"[::]:9090\"", "admin.listen", "http.listen"),
        ("admin.probe_listen = \"127.0.0.1:9090\"", "admin.probe_listen", "admin.listen"),
        ("admin.probe_listen = \"0.0.0.0:8080\"", "admin.probe_listen", "http.listen"),
    ] {
        let expected = format!("must not be the address of {other}");
        assert_eq!(said(toml, key), Some(expected), "{toml}");
    }
    for toml in [
        "http.listen = \"127.0.0.1:0\"\nadmin.listen = \"127.0.0.1:0\"",
        "admin.listen = \"127.0.0.2:8080\"",
        "admin.probe_listen = \"127.0.0.1:9091\"",
    ] {
        assert_eq!(problems(toml), [], "{toml}");
    }
}

#[test]
fn an_address_to_listen_at_has_an_ip_and_a_port() {
    for key in ["http.listen", "admin.listen"] {
        for address in
            ["", "8080", "localhost:8080", "127.0.0.1", "127.0.0.1:", "127.0.0.1:70000", "::1:80"]
        {
            let said = said(&format!("{key} = \"{address}\""), key);

            let expected = "must be an address with a port, such as 127.0.0.1:8080";
            assert_eq!(said.as_deref(), Some(expected), "{key} {address}");
        }
    }
    let probe = said("admin.probe_listen = \"9091\"", "admin.probe_listen");
    assert_eq!(probe.as_deref(), Some("must be an address with a port, such as 127.0.0.1:9091"));
}

#[test]
fn a_token_of_staff_can_be_sent_in_a_header() {
    for token in ["a b", "tökén", "a\\n", "\\t", "a\\u007f"] {
        let said = said(&format!("admin.token = \"{token}\""), "admin.token");

        let expected = "must be empty or visible ASCII without spaces: it is sent in a header";
        assert_eq!(said.as_deref(), Some(expected), "{token}");
    }
}

/// With fewer bits a token can be guessed, however slowly tries are allowed.
#[test]
fn a_token_of_staff_has_128_random_bits() {
    let hex = "0123456789abcdef0123456789ABCDEF";
    for token in ["x", "k7", "hunter2", &hex[1..], "A-b_c.~!0123456789xyz", &"0".repeat(64)] {
        let said = said(&format!("admin.token = \"{token}\""), "admin.token");

        let said = said.unwrap_or_default();
        assert!(said.contains("32 hexadecimal digits or 22 base64url"), "{token}: {said}");
    }
    let words = said(&format!("admin.token = \"{}\"", "REPLACE".repeat(8)), "admin.token");
    assert!(words.is_some(), "seven different characters");
    for token in ["", hex, "A-b_c.~!0123456789xyzW"] {
        assert_eq!(problems(&format!("admin.token = \"{token}\"")), [], "{token}");
    }
}

/// The admin listener has no TLS, so its token must not leave the machine.
#[test]
fn the_admin_listener_is_on_loopback() {
    for address in ["0.0.0.0:9090", "[::]:9090", "10.0.0.1:9090", "203.0.113.7:9090"] {
        let said = said(&format!("admin.listen = \"{address}\""), "admin.listen");

        assert!(said.is_some_and(|said| said.contains("must be a loopback address")), "{address}");
    }
    for address in ["127.0.0.1:9090", "127.1.2.3:9090", "[::1]:9090", "[::ffff:127.0.0.1]:9090"] {
        assert_eq!(problems(&format!("admin.listen = \"{address}\"")), [], "{address}");
    }
    assert_eq!(problems("admin.probe_listen = \"0.0.0.0:9091\""), []);
}

#[test]
fn tls_needs_a_certificate_and_its_key() {
    for key in ["certificate_file", "key_file"] {
        let said = said(&format!("http.tls.{key} = \"a.pem\""), "http.tls");

        assert_eq!(said.as_deref(), Some("needs both certificate_file and key_file"), "{key}");
    }
    let both = "http.tls = { certificate_file = \"a.pem\", key_file = \"b.pem\" }";
    assert_eq!(problems(both), []);
    let files = Config::from_toml(both).unwrap().http.tls_files().unwrap();
    assert_eq!(files.key_file.to_str(), Some("b.pem"));
    assert!(Config::from_toml("").unwrap().http.tls_files().is_none());
}

#[test]
fn a_word_that_is_none_of_those_listed_is_shown() {
    for (key, words) in [
        ("http.unlisted_routes", &["forward", "refuse"][..]),
        ("log.format", &["auto", "text", "json"]),
        ("platforms.platform_alpha.unlisted_routes", &["default", "forward", "refuse"]),
        ("platforms.platform_alpha.catalog_mode", &["merge"]),
    ] {
        for word in words {
            assert_eq!(said(&format!("{key} = \"{word}\""), key), None, "{key} = {word}");
        }
        for wrong in ["", "Forward", "yes"] {
            let said = said(&format!("{key} = \"{wrong}\""), key).unwrap();

            let expected = "which is not one of the words listed in config/default.toml";
            assert_eq!(said, format!("is \"{wrong}\", {expected}"), "{key}");
        }
    }
}

#[test]
fn master_keys_are_numbered_keys_of_32_bytes_and_postgresql_needs_one() {
    let key = "B".repeat(42) + "A=";
    assert_eq!(problems(&format!("secrets.master_keys = [\"1:{key}\", \"2:{key}\"]")), []);
    for wrong in [
        key.clone(),
        format!(":{key}"),
        "1:".to_owned(),
        format!("1:{}", &key[..40]),
        "1:hunter2".to_owned(),
    ] {
        let toml = format!("secrets.master_keys = [\"1:{key}\", \"{wrong}\"]");
        let said = said(&toml, "secrets.master_keys[1]").unwrap();

        assert!(!said.contains("hunter2") && !said.contains("BBBB"), "{wrong}: {said}");
    }
    let server = said("database.url = \"postgres://u@h/d\"", "secrets.master_keys").unwrap();
    assert!(
        server.starts_with("is required with PostgreSQL")
            && server.contains("openssl rand -base64 32")
    );
}

#[test]
fn a_database_is_sqlite_or_postgresql_and_its_password_is_not_shown() {
    for url in ["", "mysql://u:hunter2@h/d", "creator-gateway.db", "postgres:hunter2", "SQLITE:x"] {
        let said = said(&format!("database.url = \"{url}\""), "database.url").unwrap();

        assert!(!said.contains("hunter2"), "{url}: {said}");
    }
    let sqlite = Config::from_toml("database.url = \"sqlite:a/b.db\"").unwrap();
    assert!(sqlite.database.is_embedded());
    assert_eq!(sqlite.embedded_database().unwrap().to_str(), Some("a/b.db"));
    let server = Config::from_toml("database.url = \"postgres://u@h/d\"").unwrap();
    assert!(!server.database.is_embedded() && server.embedded_database().is_none());
}

#[test]
fn a_folder_is_named_where_one_is_needed() {
    for key in ["uploads.folder", "storage.work_folder"] {
        let said = said(&format!("{key} = \"\""), key);

        assert_eq!(said.as_deref(), Some("must name a folder"), "{key}");
    }
}

#[test]
fn a_node_is_named_by_a_whole_id() {
    for (node, is_right) in [
        ("", true),
        ("node_019ab3c4d5e67f8091a2b3c4d5e6f708", true),
        ("node_1", false),
        ("019ab3c4d5e67f8091a2b3c4d5e6f708", false),
        ("key_019ab3c4d5e67f8091a2b3c4d5e6f708", false),
    ] {
        let said = said(&format!("metering.node = \"{node}\""), "metering.node");

        let expected = "must be empty, or node_ and 32 hexadecimal digits";
        assert_eq!(said.as_deref(), (!is_right).then_some(expected), "{node}");
    }
}

#[test]
fn port_zero_in_the_public_address_becomes_the_port_that_was_taken() {
    let listening = "127.0.0.1:4321".parse().unwrap();
    for (base, expected) in [
        ("http://127.0.0.1:0", "http://127.0.0.1:4321"),
        ("http://127.0.0.1:80", "http://127.0.0.1:80"),
        ("https://api.example.com", "https://api.example.com"),
    ] {
        let mut config = Config::from_toml(&format!("http.public_base_url = \"{base}\"")).unwrap();

        config.http.name_port(listening);

        assert_eq!(config.http.public_base_url, expected);
        assert_eq!(config.http.is_public_https(), base.starts_with("https"), "{base}");
    }
}

#[test]
fn routes_that_are_not_listed_follow_the_platform_before_the_service() {
    use domain::platform::Platform;
    use settings::http::UnlistedRoutes::{Forward, Refuse};
    for (service, platform, expected) in [
        ("forward", "default", Forward),
        ("refuse", "default", Refuse),
        ("forward", "refuse", Refuse),
        ("refuse", "forward", Forward),
    ] {
        let toml = format!(
            "http.unlisted_routes = \"{service}\"\nplatforms.platform_beta.unlisted_routes = \"{platform}\""
        );
        let config = Config::from_toml(&toml).unwrap();

        assert_eq!(config.unlisted_routes(Platform::BETA), expected, "{toml}");
    }
}
