//! The configuration and the catalogue file of a drawn platform, as an operator would write them.

#![expect(
    clippy::format_push_string,
    clippy::shadow_unrelated,
    clippy::unnecessary_debug_formatting,
    reason = "the texts of a test, written once"
)]

use std::path::Path;

use super::drawn::{EnvelopeQuirk, KeyQuirk, PartQuirk, Quirks, SigningQuirk};

/// Where the stub and its proxy are.
#[derive(Debug, Clone)]
pub(super) struct Addresses {
    pub(super) first: String,
    pub(super) second: String,
    pub(super) proxy: String,
}

/// The files: what the catalogue is, and the signing values.
pub(super) fn write_files(quirks: &Quirks, folder: &Path) {
    std::fs::write(folder.join("catalog.toml"), catalogue(quirks)).unwrap();
    if let Some(signing) = &quirks.signing {
        let (name, value) = &signing.value;
        let values = format!(r#"{{"{name}": "{value}", "other": 7}}"#);
        std::fs::write(folder.join("values.json"), values).unwrap();
    }
}

fn catalogue(quirks: &Quirks) -> String {
    let mut text = String::new();
    let mut field = |name: &str, kind: &str, required: bool| {
        text += &format!(
            "[[auth_fields]]\nname = \"{name}\"\nkind = \"{kind}\"\nrequired = {required}\n\
             secret = true\nbytes_max = 500\ndescription = \"A credential.\"\n"
        );
    };
    field(&quirks.token, "string", true);
    field(&quirks.user, "string", true);
    if quirks.oauth.is_some() {
        field("refresh_token", "string", false);
        field("expires_at", "timestamp", false);
    }
    if let Some(name) = quirks.proxy.as_ref().and_then(|proxy| proxy.credential.as_ref()) {
        field(name, "string", false);
    }
    for (method, template) in
        [("GET", "things/{id}"), ("POST", "things"), ("GET", "list"), ("GET", "broken")]
    {
        text += &format!(
            "[[routes]]\nmethod = \"{method}\"\ntemplate = \"{template}\"\ngroup = \"drawn\"\n"
        );
    }
    text
}

/// The configuration.
pub(super) fn configuration(quirks: &Quirks, at: &Addresses, folder: &Path) -> String {
    let Quirks { name, prefix, token, .. } = quirks;
    let catalog = folder.join("catalog.toml");
    let mut text = format!(
        "[slots.included]\n{name} = 3\n[platforms.{name}]\nbase_url = \"http://{}\"\n\
         path_prefix = \"{prefix}\"\ncatalog = {catalog:?}\ncookies = {}\n",
        at.first, quirks.cookies
    );
    let headers: Vec<String> = quirks
        .headers
        .iter()
        .map(|header| {
            let field = if header.is_token { token } else { &quirks.user };
            let value = format!("{}{{{field}}}{}", header.before, header.after);
            format!("{{ name = {:?}, value = {value:?} }}", header.name)
        })
        .chain(value_header(quirks))
        .collect();
    text += &format!("headers = [{}]\n", headers.join(", "));
    if let Some((name, value)) = &quirks.version_header {
        text += &format!("version_header = {{ name = {name:?}, value = {value:?} }}\n");
    }
    if let Some((path, base)) = &quirks.second_host {
        let host = &at.second;
        text +=
            &format!("hosts = [{{ path = \"{path}/\", base_url = \"http://{host}/{base}\" }}]\n");
    }
    if let Some(parameter) = &quirks.query {
        text += &format!("query = [{{ name = {parameter:?}, value = \"{{{token}}}\" }}]\n");
    }
    if let Some(proxy) = &quirks.proxy {
        let template = proxy.credential.as_ref().map(|name| format!("{{{name}}}"));
        let written = template.unwrap_or_else(|| proxy_url(quirks, at).unwrap_or_default());
        text += &format!("proxy = {written:?}\nprivate_proxies = true\n");
    }
    text += &envelope(quirks);
    text += &verification(quirks);
    if let Some(in_header) = quirks.oauth {
        let place = if in_header { "basic" } else { "body" };
        text += &format!(
            "oauth = {{ token_url = \"http://{}/grant\", client_id = \"drawn-id\", \
             client_secret = \"drawn secret\", client_authentication = \"{place}\" }}\n",
            at.first
        );
    }
    if let Some(signing) = &quirks.signing {
        text += &recipe(quirks, signing, folder);
    }
    text
}

fn value_header(quirks: &Quirks) -> Option<String> {
    let signing = quirks.signing.as_ref()?;
    let header = signing.value_header.as_ref()?;
    Some(format!("{{ name = {header:?}, value = \"r{{signing.{}}}\" }}", signing.value.0))
}

/// The address of the proxy with its login.
pub(super) fn proxy_url(quirks: &Quirks, at: &Addresses) -> Option<String> {
    let proxy = quirks.proxy.as_ref()?;
    let scheme = if proxy.is_socks { "socks5" } else { "http" };
    let password = proxy.password.replace('%', "%25");
    Some(format!("{scheme}://{}:{password}@{}", proxy.user, at.proxy))
}

fn envelope(quirks: &Quirks) -> String {
    match &quirks.envelope {
        EnvelopeQuirk::None => String::new(),
        EnvelopeQuirk::Response => "envelope = true\n".to_owned(),
        EnvelopeQuirk::Pointers { data, error, success } => {
            let success =
                success.as_ref().map(|name| format!(", success = \"/{name}\"")).unwrap_or_default();
            format!("envelope = {{ data = \"/{data}\", error = \"/{error}\"{success} }}\n")
        }
    }
}

fn verification(quirks: &Quirks) -> String {
    let verify = &quirks.verify;
    let method = if verify.is_post { "POST" } else { "GET" };
    let user = if verify.names_user { format!("/{{{}}}", quirks.user) } else { String::new() };
    let equals = if verify.equals_user { quirks.user.as_str() } else { "" };
    format!(
        "verify_route = {{ path = \"{}{user}\", method = \"{method}\", body = '{}', \
         id_pointer = \"/{}\", equals_field = \"{equals}\", accepted_statuses = [] }}\n",
        verify.path,
        verify.body,
        verify.id_members.join("/"),
    )
}

fn recipe(quirks: &Quirks, signing: &SigningQuirk, folder: &Path) -> String {
    let mut parts: Vec<String> =
        signing.parts.iter().map(|part| self::part(quirks, signing, *part)).collect();
    let mut headers = vec![
        format!("{{ name = {:?}, value = \"v1 {{signature}}\" }}", signing.header),
        format!("{{ name = {:?}, value = \"{{time}}\" }}", signing.time_header),
    ];
    if signing.parts.contains(&PartQuirk::Random) {
        headers.push(format!("{{ name = {:?}, value = \"{{random}}\" }}", signing.random_header));
    }
    let of: Vec<String> = signing.parts.iter().map(|part| format!("\"{}\"", name(*part))).collect();
    let mut key_line = String::new();
    let function = match &signing.key {
        KeyQuirk::None => "from = \"hash\"".to_owned(),
        KeyQuirk::Fixed(key) => {
            key_line = format!("key = {key:?}\n");
            "from = \"hmac\"".to_owned()
        }
        KeyQuirk::Derived(secret) => {
            parts.push(format!("{{ name = \"root\", from = \"secret\", secret = {secret:?} }}"));
            parts.push(format!(
                "{{ name = \"day\", from = \"value\", value = {:?} }}",
                signing.value.0
            ));
            parts.push(
                "{ name = \"derived\", from = \"hmac\", key = \"root\", of = [\"day\"], \
                 algorithm = \"sha256\", encoding = \"raw\" }"
                    .to_owned(),
            );
            "from = \"hmac\", key = \"derived\"".to_owned()
        }
    };
    parts.push(format!(
        "{{ name = \"signature\", {function}, algorithm = {:?}, encoding = {:?}, separator = {:?}, \
         of = [{}] }}",
        signing.algorithm,
        signing.encoding,
        signing.separator,
        of.join(", ")
    ));
    let uses_value = signing.value_header.is_some()
        || signing.parts.contains(&PartQuirk::Value)
        || matches!(signing.key, KeyQuirk::Derived(_));
    let values = folder.join("values.json");
    let values =
        if uses_value { format!("values = {{ file = {values:?} }}\n") } else { String::new() };
    format!(
        "[platforms.{}.signing]\nscheme = \"recipe\"\n{key_line}{values}parts = [\n{}\n]\nheaders = [\n{}\n]\n",
        quirks.name,
        parts.join(",\n"),
        headers.join(",\n")
    )
}

fn name(part: PartQuirk) -> &'static str {
    match part {
        PartQuirk::Method => "method",
        PartQuirk::Target => "target",
        PartQuirk::Path => "path",
        PartQuirk::Body => "body",
        PartQuirk::TimeSeconds | PartQuirk::TimeMillis => "time",
        PartQuirk::Random => "random",
        PartQuirk::Token => "token",
        PartQuirk::Text => "text",
        PartQuirk::Secret => "secret",
        PartQuirk::Value => "value",
    }
}

fn part(quirks: &Quirks, signing: &SigningQuirk, part: PartQuirk) -> String {
    let rest = match part {
        PartQuirk::Method | PartQuirk::Target | PartQuirk::Path => {
            format!("from = \"{}\"", name(part))
        }
        PartQuirk::Body => {
            let empty = if signing.empty_is_text { ", empty = \"text\"" } else { "" };
            format!(
                "from = \"body\", algorithm = {:?}, encoding = {:?}{empty}",
                signing.body_algorithm, signing.body_encoding
            )
        }
        PartQuirk::TimeSeconds => "from = \"time_s\"".to_owned(),
        PartQuirk::TimeMillis => "from = \"time_ms\"".to_owned(),
        PartQuirk::Random => format!("from = \"random\", bytes = {}", signing.random_bytes),
        PartQuirk::Token => format!("from = \"field\", field = {:?}", quirks.token),
        PartQuirk::Text => "from = \"text\", text = \"plain text\"".to_owned(),
        PartQuirk::Secret => "from = \"secret\", secret = \"hidden text\"".to_owned(),
        PartQuirk::Value => format!("from = \"value\", value = {:?}", signing.value.0),
    };
    format!("{{ name = \"{}\", {rest} }}", name(part))
}
