//! Wrong values of a platform's declaration: each is refused with its key, and with what would be
//! right.

use settings::{Config, UnreadableConfig};

/// What stands in the platform's table, the key that is refused below `platforms.own`, and what is
/// said of it.
const WRONG: &[(&str, &str, &str)] = &[
    ("extends = \"platform_alfa\"", "extends", "did you mean `platform_alpha`?"),
    ("base_url = \"own.example\"", "base_url", "must be http:// or https:// with a host"),
    ("path_prefix = \"a/../b\"", "path_prefix", "has an unusable path"),
    ("cookies = \"often\"", "cookies", "must be true or false"),
    ("private_proxies = \"maybe\"", "private_proxies", "must be true or false"),
    (
        "proxy = \"https://proxy.example:1\"",
        "proxy",
        "must be http://host:port or socks5://host:port",
    ),
    ("proxy = \"{nobody}\"", "proxy", "known are user_id"),
    ("proxy = \"http://{call_id}:1\"", "proxy", "must not name {call_id}"),
    ("ca_file = \"/nowhere.pem\"", "ca_file", "cannot be read as a PEM file of certificates"),
    ("client_certificate_file = \"/nowhere.pem\"", "client_key_file", "is required"),
    ("client_key_file = \"/nowhere.pem\"", "client_certificate_file", "is required"),
    (
        "hosts = [{ path = \"\", base_url = \"https://up.example\" }]",
        "hosts[0].path",
        "must be the beginning of native paths",
    ),
    (
        "hosts = [{ path = \"up\", base_url = \"up.example\" }]",
        "hosts[0].base_url",
        "must be http:// or https://",
    ),
    ("hosts = [{ path = \"up\" }]", "hosts[0].base_url", "must be given"),
    ("hosts = \"up\"", "hosts", "must be a list in [ ]; config/default.toml has an example"),
    ("hosts = [\"up\"]", "hosts[0]", "must be a table with keys of its own"),
    ("headers = \"X: y\"", "headers", "must be a list of tables"),
    ("envelope = 5", "envelope", "must be true, false or a table"),
    (
        "pacing.reads = { per_second = \"fast\", burst = 1 }",
        "pacing.reads.per_second",
        "must be a number",
    ),
    ("query = [{ name = \"\", value = \"x\" }]", "query[0].name", "is required"),
    (
        "query = [{ name = \"key\", value = \"{call_id}\" }]",
        "query[0].value",
        "must be text and credentials",
    ),
    ("query = [{ name = \"key\", value = \"{nobody}\" }]", "query[0].value", "known are user_id"),
    ("envelope = { data = \"result\" }", "envelope.data", "must be"),
    (
        "envelope = { data = \"/result\", error = \"/result\" }",
        "envelope.error",
        "point to what only errors have",
    ),
    (
        "envelope = { data = \"/error/data\", error = \"/error\" }",
        "envelope.error",
        "every answer would be taken for an error",
    ),
    (
        "envelope = { data = \"/ok\", success = \"/ok\" }",
        "envelope.success",
        "point to what is true in each success",
    ),
    (
        "query = [{ name = \"key\", value = \"k\" }, { name = \"offset\", value = \"0\" }]",
        "query[1].name",
        "the service sets it itself to read the dataset ",
    ),
    ("query = [{ name = \"limit\", value = \"9\" }]", "query[0].name", "take it out"),
    (
        "envelope = { data = \"/a\", ok = \"/b\" }",
        "envelope.ok",
        "expected one of `data`, `error`, `success`",
    ),
    (
        "verify_route.method = \"FETCH\"",
        "verify_route.method",
        "must be GET, POST, PUT, PATCH or DELETE",
    ),
    ("verify_route.body = \"{}\"", "verify_route.body", "empty for a GET"),
    ("verify_route.id_pointer = \"id\"", "verify_route.id_pointer", "begins with a slash"),
    ("verify_route.equals_field = \"nobody\"", "verify_route.equals_field", "known are user_id"),
    (
        "oauth.client_authentication = \"digest\"",
        "oauth.client_authentication",
        "must be \"body\" or \"basic\"",
    ),
    (
        "oauth = { token_url = \"x\", client_id = \"i\" }",
        "oauth.token_url",
        "must be http:// or https://",
    ),
    ("oauth.token_url = \"https://own.example/token\"", "oauth.client_id", "is required"),
    ("headers = [{ name = \"X Y\", value = \"z\" }]", "headers[0].name", "is not a header name"),
    ("headers = [{ name = \"X\", value = \"{nobody}\" }]", "headers[0].value", "known are user_id"),
    ("headers = [{ name = \"X\", value = \"{signing.rev}\" }]", "headers[0].value", "signing"),
    (
        "version_header = { name = \"Host\", value = \"1\" }",
        "version_header.name",
        "belongs to the connection",
    ),
    ("response_headers = [\"Set-Cookie\"]", "response_headers[0]", "never passes"),
    ("catalog = \"/nowhere.toml\"", "catalog", "/nowhere.toml: there is no such file"),
    ("catalog = \"/\"", "catalog", "it is a folder, not a file"),
    ("catalog_mode = \"append\"", "catalog_mode", "is not one of"),
    ("unlisted_routes = \"drop\"", "unlisted_routes", "one of the words"),
    ("timeouts.connect_ms = 0", "timeouts.connect_ms", "must be 1 to 86,400,000"),
    ("timeouts.stream_idle_ms = 86400001", "timeouts.stream_idle_ms", "at most a day"),
    ("timeouts.tls_ms = -1", "timeouts.tls_ms", "is negative or too large"),
    ("version_header = { name = \"X-V\" }", "version_header.value", "is required"),
    ("verify_route.id_pointer = \"/a~b\"", "verify_route.id_pointer", "only as ~0 and ~1"),
    (
        "signing = { scheme = \"md5\", key = \"k\" }",
        "signing.scheme",
        "known: hmac-sha256-v1, recipe, external, none",
    ),
    ("signing = { scheme = \"recipe\" }", "signing.headers", "is required"),
    (
        "signing = { scheme = \"none\", url = \"http://127.0.0.1:1\" }",
        "signing.url",
        "is used with scheme = \"external\" only",
    ),
    (
        "signing = { scheme = \"external\", url = \"http://signer.example:1\" }",
        "signing.url",
        "must",
    ),
    (
        "signing = { scheme = \"external\", url = \"http://127.0.0.1:1\", fields = [\"nobody\"] }",
        "signing.fields",
        "known are user_id",
    ),
    (
        "signing = { scheme = \"external\", url = \"http://127.0.0.1:1\", timeout_ms = 0 }",
        "signing.timeout_ms",
        "must",
    ),
    (
        "signing.values = { file = \"a\", url = \"https://b.example\" }",
        "signing.values.url",
        "values come from one place",
    ),
    (
        "signing.values = { file = \"/nowhere.json\", refresh_s = 0 }",
        "signing.values.refresh_s",
        "must",
    ),
];

/// What stands in a part of a recipe, the key below `signing.parts[0]`, and what is said of it.
const WRONG_PARTS: &[(&str, &str, &str)] = &[
    ("from = \"weather\"", "from", "there are method, target, path"),
    ("from = \"body\", algorithm = \"md5\"", "algorithm", "must be"),
    ("from = \"body\", algorithm = \"sha256\", encoding = \"base32\"", "encoding", "must be"),
    ("from = \"body\", algorithm = \"sha256\", empty = \"zero\"", "empty", "must be"),
    ("from = \"random\"", "bytes", "1 to 256"),
    ("from = \"field\", field = \"nobody\"", "field", "known are user_id"),
    ("from = \"secret\"", "secret", "is required"),
    ("from = \"device_id\"", "secret", "is required"),
    ("from = \"hash\", algorithm = \"sha256\", of = [\"later\"]", "of", "no earlier part"),
    ("from = \"hmac\", algorithm = \"sha256\", of = []", "of", "is required"),
    ("from = \"method\", bytes = 4", "bytes", "take it out"),
    ("from = \"hash\", algorithm = \"sha256\", of = \"b\"", "of", "must be a list"),
];

fn problems(toml: &str) -> Vec<(String, String)> {
    let found = match Config::from_toml(toml) {
        Ok(config) => config.all_problems(),
        Err(UnreadableConfig::Values(problems)) => problems,
        Err(other) => panic!("{toml}: {other}"),
    };
    found.into_iter().map(|problem| (problem.key, problem.message)).collect()
}

fn table(line: &str) -> String {
    let given = |key: &str| line.starts_with(&format!("{key} "));
    let mut toml = String::from("[platforms.own]\n");
    for (key, value) in [("extends", "platform_alpha"), ("base_url", "https://own.example")] {
        if !given(key) {
            toml += &[key, " = \"", value, "\"\n"].concat();
        }
    }
    toml + line
}

#[test]
fn each_wrong_value_of_a_declaration_is_refused_with_its_key_and_the_remedy() {
    let mut missed = Vec::new();
    let parts = WRONG_PARTS.iter().map(|(part, key, said)| {
        let line = format!(
            "signing = {{ scheme = \"recipe\", key = \"k\", parts = [{{ name = \"one\", {part} }}], \
             headers = [{{ name = \"X-One\", value = \"{{one}}\" }}] }}"
        );
        (line, format!("signing.parts[0].{key}"), *said)
    });
    let others =
        WRONG.iter().map(|(line, key, said)| ((*line).to_owned(), (*key).to_owned(), *said));
    for (line, key, said) in others.chain(parts) {
        let found = problems(&table(&line));
        let key = format!("platforms.own.{key}");
        if !found.iter().any(|(named, message)| *named == key && message.contains(said)) {
            missed.push(format!("{line}\n  expected {key}: {said}\n  found {found:?}"));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}
