//! A table of a platform's writes: each is performed, and a read shows its effect. The table
//! records the routes it has covered, and checks that all its reads survive a restart.

use std::collections::{BTreeMap, BTreeSet};

use http::Method;
use serde_json::{Value, json};

use crate::catalogue;
use crate::kit::{Kit, Reply, none};

/// A read, a JSON pointer into `{"status": …, "body": …}`, and the value that must be there after
/// the write and not before.
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

    /// The response to a read of a path.
    pub(crate) async fn read(&self, path: &str) -> Value {
        state(self.kit, self.creator, path).await
    }

    /// The value of a read at a pointer into its body.
    pub(crate) async fn at(&self, path: &str, pointer: &str) -> Value {
        let state = self.read(path).await;
        state["body"].pointer(pointer).unwrap_or_else(|| panic!("{path}: {state}")).clone()
    }

    /// Posts what another write needs. Returns the body of the response.
    pub(crate) async fn send(&self, path: &str, body: Value) -> Value {
        self.kit.post(self.creator, path, body).await
    }

    /// Sends the body to the path by the route of the catalogue; the reads must show its effect
    /// afterwards and not before. Returns the body of the response.
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

    /// Like [`Table::shows`], for a route without parameters, whose name is its path.
    pub(crate) async fn shows_at(
        &mut self,
        route: &str,
        body: Value,
        shows: &[Shows<'_>],
    ) -> Value {
        let (_, path) = route.split_once(' ').unwrap();
        self.shows(route, path, body, shows).await
    }

    /// Like [`Table::shows`], for a write that is sent in another way.
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

    /// A read that is sent as a write: nothing changes. Returns the body of the response.
    pub(crate) async fn checks(&mut self, route: &str, path: &str, body: Value) -> Value {
        let before = all(self.kit, self.creator, &self.reads).await;
        let reply = self.kit.send(self.creator, Method::POST, path, body).await;
        assert!(reply.status.is_success(), "{route}: {} {}", reply.status, reply.body);
        assert_eq!(all(self.kit, self.creator, &self.reads).await, before, "{route}");
        self.seen.insert(route.to_owned());
        reply.body
    }

    /// Checks that every write of the catalogue was performed, and no unknown ones.
    pub(crate) fn covers_the_catalogue(&self, platform: &str) {
        let writes = catalogue::writes(platform);
        let missing: Vec<_> = writes.difference(&self.seen).collect();
        let unknown: Vec<_> = self.seen.difference(&writes).collect();
        assert!(
            missing.is_empty() && unknown.is_empty(),
            "missing {missing:?}, unknown {unknown:?}"
        );
    }

    /// Checks that all reads return the same on restarted simulators.
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
