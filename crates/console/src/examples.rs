//! A call as code in three languages. The key is read from an environment variable: a real one is
//! never put into an example.

use serde_json::Value;

/// A call to write as code.
#[derive(Debug, Clone)]
pub(crate) struct CodeExample {
    /// Such as `GET`.
    pub(crate) method: String,
    /// The whole address, with its query.
    pub(crate) url: String,
    /// The body, as JSON.
    pub(crate) body: Option<String>,
    /// The file in which the response is kept; none prints it.
    pub(crate) file: Option<String>,
}

impl CodeExample {
    /// For a shell.
    pub(crate) fn curl(&self) -> String {
        let mut text = "curl".to_owned();
        if self.method != "GET" {
            text.push_str(" -X ");
            text.push_str(&self.method);
        }
        text.push(' ');
        text.push_str(&shell_quoted(&self.url));
        text.push_str(" \\\n  -H \"X-API-Key: $CGW_KEY\"");
        if self.is_write() {
            text.push_str(" \\\n  -H \"Idempotency-Key: $(uuidgen)\"");
        }
        if let Some(body) = &self.body {
            text.push_str(" \\\n  -H 'Content-Type: application/json'");
            text.push_str(" \\\n  -d ");
            text.push_str(&shell_quoted(body));
        }
        if let Some(file) = &self.file {
            text.push_str(" \\\n  -f -o ");
            text.push_str(&shell_quoted(file));
        }
        text
    }

    /// For Python, with `requests`.
    pub(crate) fn python(&self) -> String {
        let keyed = if self.is_write() { ", \"Idempotency-Key\": str(uuid.uuid4())" } else { "" };
        let modules = if self.is_write() { "os, uuid, requests" } else { "os, requests" };
        let typed =
            if self.body.is_some() { ", \"Content-Type\": \"application/json\"" } else { "" };
        let body =
            self.body.as_deref().map(|body| format!("    data={}.encode(),\n", literal(body)));
        let end = match &self.file {
            Some(file) => format!("open({}, \"wb\").write(r.content)", literal(file)),
            None => "print(r.text, r.headers[\"X-Credits-Cost\"])".to_owned(),
        };
        format!(
            "import {modules}\n\nr = requests.request(\n    \"{}\",\n    {},\n    headers={{\"X-API-Key\": os.environ[\"CGW_KEY\"]{keyed}{typed}}},\n{})\nr.raise_for_status()\n{end}",
            self.method,
            literal(&self.url),
            body.unwrap_or_default(),
        )
    }

    /// For TypeScript, with `fetch`.
    pub(crate) fn typescript(&self) -> String {
        let keyed = if self.is_write() { ", \"Idempotency-Key\": crypto.randomUUID()" } else { "" };
        let typed =
            if self.body.is_some() { ", \"Content-Type\": \"application/json\"" } else { "" };
        let body = self.body.as_deref().map(|body| format!("    body: {},\n", literal(body)));
        let end = match &self.file {
            Some(file) => format!(
                "await fs.writeFile({}, Buffer.from(await response.arrayBuffer()));",
                literal(file)
            ),
            None => "console.log(await response.text(), response.headers.get(\"X-Credits-Cost\"));"
                .to_owned(),
        };
        let import =
            if self.file.is_some() { "import fs from \"node:fs/promises\";\n\n" } else { "" };
        format!(
            "{import}const response = await fetch(\n  {},\n  {{\n    method: \"{}\",\n    headers: {{ \"X-API-Key\": process.env.CGW_KEY!{keyed}{typed} }},\n{}  }},\n);\nif (!response.ok) throw new Error(`${{response.status}}`);\n{end}",
            literal(&self.url),
            self.method,
            body.unwrap_or_default(),
        )
    }

    fn is_write(&self) -> bool {
        !matches!(self.method.as_str(), "GET" | "HEAD")
    }
}

/// A string of JSON is one of Python and of TypeScript as well.
fn literal(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

/// One word for a shell, whatever is in it.
fn shell_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write() -> CodeExample {
        CodeExample {
            method: "POST".to_owned(),
            url: "https://api.example/v1/demo/native/a?b=c&d".to_owned(),
            body: Some("{\"text\":\"it's \\\"$HOME\\\"\"}".to_owned()),
            file: None,
        }
    }

    #[test]
    fn nothing_in_a_value_is_read_by_the_shell() {
        let text = write().curl();

        assert!(text.contains("'https://api.example/v1/demo/native/a?b=c&d'"), "{text}");
        assert!(text.contains(r#"-d '{"text":"it'\''s \"$HOME\""}'"#), "{text}");
        assert!(text.contains("\"X-API-Key: $CGW_KEY\""), "{text}");
    }

    #[test]
    fn bodies_are_literals_of_each_language() {
        let quoted = r#""{\"text\":\"it's \\\"$HOME\\\"\"}""#;

        assert!(write().python().contains(&format!("data={quoted}.encode()")));
        assert!(write().typescript().contains(&format!("body: {quoted}")));
        for text in [write().python(), write().typescript(), write().curl()] {
            assert!(text.contains("Idempotency-Key"), "{text}");
        }
    }

    #[test]
    fn reads_are_short() {
        let read = CodeExample { method: "GET".to_owned(), body: None, ..write() };

        assert_eq!(
            read.curl(),
            "curl 'https://api.example/v1/demo/native/a?b=c&d' \\\n  -H \"X-API-Key: $CGW_KEY\""
        );
        assert!(!read.python().contains("uuid"));
    }
}
