//! The table that writes of a platform are tried in: each is performed, and a read shows what it
//! has changed. The table knows which routes it has seen, and that all its reads outlive a restart.

use std::collections::{BTreeMap, BTreeSet};

use http::Method;
use serde_json::{Value, json};

use crate::catalogue;
use crate::kit::{Kit, Reply, none};

/// A read, a JSON pointer into `{"status": …, "body": …}`, and what has to be there after the write
/// and must not be there before it.
pub(crate) type Shows<'a> = (&'a str, &'a str, Value);

/// The writes of one creator.
pub(crate) struct Table<'a> {
    kit: &'a Kit,
    creator: &'static str,
    seen: BTreeSet<String>,
    reads: BTreeSet<String>,
}

impl<'a> Table<'a> {
    pub(crate) fn new(kit: &'a Kit, creator: &'static str) -> Self {
        Self { kit, creator, seen: BTreeSet::new(), reads: BTreeSet::new() }
    }

    /// What a path of the platform answers.
    pub(crate) async fn read(&self, path: &str) -> Value {
        state(self.kit, self.creator, path).await
    }

    /// What a read has at a pointer into its body.
    pub(crate) async fn at(&self, path: &str, pointer: &str) -> Value {
        let state = self.read(path).await;
        state["body"].pointer(pointer).unwrap_or_else(|| panic!("{path}: {state}")).clone()
    }

    /// Posts what another write needs. Gives the body of the answer.
    pub(crate) async fn send(&self, path: &str, body: Value) -> Value {
        self.kit.post(self.creator, path, body).await
    }

    /// Sends the body to the path by the route of the catalogue; the reads show it afterwards and
    /// not before. Gives the body of the answer.
    pub(crate) async fn shows(
        &mut self,
        route: &str,
        path: &str,
        body: Value,
        shows: &[Shows<'_>],
    ) -> Value {
        let (method, _) = route.split_once(' ').unwrap();
        let method: Method = method.parse().unwrap();
        let (kit, creator) = (self.kit, self.creator);
        self.shows_by(route, shows, async || {
            kit.send(creator, method.clone(), path, body.clone()).await
        })
        .await
    }

    /// As [`Table::shows`], for a route without parameters: its path is in its name.
    pub(crate) async fn shows_at(
        &mut self,
        route: &str,
        body: Value,
        shows: &[Shows<'_>],
    ) -> Value {
        let (_, path) = route.split_once(' ').unwrap();
        self.shows(route, path, body, shows).await
    }

    /// As [`Table::shows`], for a write that is sent in another way.
    pub(crate) async fn shows_by(
        &mut self,
        route: &str,
        shows: &[Shows<'_>],
        send: impl AsyncFn() -> Reply,
    ) -> Value {
        for (path, pointer, expected) in shows {
            let before = self.read(path).await;
            assert_ne!(before.pointer(pointer), Some(expected), "{route}: {path} has it already");
        }
        let reply = send().await;
        assert!(reply.status.is_success(), "{route}: {} {}", reply.status, reply.body);
        for (path, pointer, expected) in shows {
            let after = self.read(path).await;
            assert_eq!(after.pointer(pointer), Some(expected), "{route}: {path}");
            self.reads.insert((*path).to_owned());
        }
        assert!(!shows.is_empty(), "{route} shows nothing");
        self.seen.insert(route.to_owned());
        reply.body
    }

    /// A read that is sent as a write: nothing changes. Gives the body of the answer.
    pub(crate) async fn checks(&mut self, route: &str, path: &str, body: Value) -> Value {
        let before = all(self.kit, self.creator, &self.reads).await;
        let reply = self.kit.send(self.creator, Method::POST, path, body).await;
        assert!(reply.status.is_success(), "{route}: {} {}", reply.status, reply.body);
        assert_eq!(all(self.kit, self.creator, &self.reads).await, before, "{route}");
        self.seen.insert(route.to_owned());
        reply.body
    }

    /// Every write of the catalogue's file was performed, and nothing that it does not know.
    pub(crate) fn covers_the_catalogue(&self, platform: &str) {
        let writes = catalogue::writes(platform);
        let missing: Vec<_> = writes.difference(&self.seen).collect();
        let unknown: Vec<_> = self.seen.difference(&writes).collect();
        assert!(
            missing.is_empty() && unknown.is_empty(),
            "missing {missing:?}, unknown {unknown:?}"
        );
    }

    /// Everything that was read says the same on simulators that were started again.
    pub(crate) async fn outlives(&self, restarted: &Kit) {
        restarted.clock.advance_ms(self.kit.clock.now_ms() - restarted.clock.now_ms());
        let before = all(self.kit, self.creator, &self.reads).await;
        let after = all(restarted, self.creator, &self.reads).await;
        for (path, body) in before {
            assert_eq!(after.get(&path), Some(&body), "{path} after a restart");
        }
    }
}

async fn state(kit: &Kit, creator: &str, path: &str) -> Value {
    let reply = kit.send(creator, Method::GET, path, none()).await;
    json!({"status": reply.status.as_u16(), "body": reply.body})
}

async fn all(kit: &Kit, creator: &str, paths: &BTreeSet<String>) -> BTreeMap<String, Value> {
    let mut states = BTreeMap::new();
    for path in paths {
        states.insert(path.clone(), state(kit, creator, path).await);
    }
    states
}
