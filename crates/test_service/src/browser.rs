//! A browser without scripts: it keeps cookies, opens pages and sends their forms.
#![expect(clippy::unwrap_used, reason = "an unexpected value must fail the test")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::page::Page;
use crate::member::{Member, PASSWORD};
use crate::{Client, TestApp};

/// A browser. Clones share its cookies, like windows.
#[derive(Clone)]
pub struct Browser {
    client: Client,
    cookies: Arc<Mutex<BTreeMap<String, String>>>,
}

impl TestApp {
    /// A browser that is not signed in.
    pub fn browser(&self) -> Browser {
        let client = self.anonymous().with("accept", "text/html");
        Browser { client, cookies: Arc::default() }
    }

    /// A browser that is signed in as a member, through the form.
    pub async fn browser_of(&self, member: &Member) -> Browser {
        let browser = self.browser();
        let login = browser.open("/console/login").await;
        let fields = [("email", member.email.as_str()), ("password", PASSWORD)];
        let done = browser.submit(&login, "/console/login", &fields).await;
        assert_eq!((done.status(), done.location()), (303, "/console"), "{}", done.html());
        browser
    }
}

impl Browser {
    /// Opens a page. A redirect is not followed.
    pub async fn open(&self, path: &str) -> Page {
        self.take(path, self.client().get(path).await)
    }

    /// Sends a form of the page as it stands, with these fields filled in. Fields of the page keep
    /// their values; a field that is filled in here replaces them.
    pub async fn submit(&self, page: &Page, action: &str, fields: &[(&str, &str)]) -> Page {
        let mut sent = page.fields(action);
        sent.retain(|(name, _)| !fields.iter().any(|(filled, _)| filled == name));
        sent.extend(fields.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())));
        let sent: Vec<_> = sent.iter().map(|(name, value)| (&**name, &**value)).collect();
        self.post(action, &sent).await
    }

    /// Sends a form and opens the page that it leads to.
    pub async fn submit_and_follow(
        &self,
        page: &Page,
        action: &str,
        fields: &[(&str, &str)],
    ) -> Page {
        let done = self.submit(page, action, fields).await;
        assert_eq!(done.status(), 303, "{action} must lead to a page: {}", done.html());
        self.open(done.location()).await
    }

    /// Sends these fields from a page of ours, whatever the page had.
    pub async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        let client = self.client().with("sec-fetch-site", "same-origin");
        self.post_from(&client, path, fields).await
    }

    /// Sends these fields as a page of another site would make the browser send them.
    pub async fn post_from_elsewhere(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        let client = self.client().with("sec-fetch-site", "cross-site");
        self.post_from(&client, path, fields).await
    }

    async fn post_from(&self, client: &Client, path: &str, fields: &[(&str, &str)]) -> Page {
        let pairs: Vec<_> = fields.iter().map(|&(name, value)| pair(name, value)).collect();
        let body = pairs.join("&").into_bytes();
        let client = client.with("content-type", "application/x-www-form-urlencoded");
        self.take(path, client.send("POST", path, Some(body)).await)
    }

    /// The session of this browser, for the routes of the API.
    pub fn client(&self) -> Client {
        let jar = self.cookies.lock().unwrap();
        let pairs: Vec<_> = jar.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if pairs.is_empty() {
            self.client.clone()
        } else {
            self.client.with("cookie", &pairs.join("; "))
        }
    }

    /// Reads a response, and keeps its cookies.
    fn take(&self, path: &str, reply: crate::Reply) -> Page {
        for set in reply.headers.get_all("set-cookie") {
            let set = set.to_str().unwrap();
            let (name, value) = set.split(';').next().unwrap().split_once('=').unwrap();
            let mut jar = self.cookies.lock().unwrap();
            if value.is_empty() {
                jar.remove(name);
            } else {
                jar.insert(name.to_owned(), value.to_owned());
            }
        }
        Page::read(path, reply)
    }
}

/// A field as a form sends it.
fn pair(name: &str, value: &str) -> String {
    format!("{}={}", escaped(name), escaped(value))
}

/// Text as it stands in a form or an address, with every byte as `%XX`.
pub fn escaped(text: &str) -> String {
    let bytes: Vec<_> = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
    bytes.concat()
}
