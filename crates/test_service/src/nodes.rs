//! Several nodes: the service three times on one PostgreSQL database, as separate processes would
//! run it.

use std::time::Duration;

use node::start::RunningService;
use runtime::clock::Random;
use settings::Config;
use tokio::runtime::{Builder, Runtime};

use super::app::TestApp;
use super::client::{Client, Reply};
use super::platform::{RawPlatform, Script, Seen};
use super::stage::Stage;

/// The time that a killed node's runtime may take to drop its tasks.
const DEATH: Duration = Duration::from_secs(20);

/// A stage whose service runs three times: the stage's own, and two more.
pub struct Nodes {
    /// The stage, whose service is the first node.
    pub stage: Stage,
    others: Vec<Node>,
}

/// An additional node. It has its own runtime, so that it can be killed.
struct Node {
    running: RunningService,
    runtime: Runtime,
}

/// Disables PostgreSQL's notices for all connections opened later.
const MUTE: [&str; 3] = [
    "create schema mute",
    "create function mute.pg_notify(text, text) returns text language sql as $$ select '' $$",
    "do $$ begin
         execute format('alter database %I set search_path = mute, pg_catalog, public', current_database());
     end $$",
];

/// Runs a test on three nodes, on PostgreSQL: SQLite always has one node.
pub async fn on_three_nodes<S, F>(overrides: &str, script: S, test: F)
where
    S: Fn(&Seen, usize) -> Script + Clone + Send + Sync + 'static,
    F: AsyncFn(Nodes) -> Nodes,
{
    play(store::testing::postgres().await, overrides, script, test).await;
}

/// The same with a platform created by the test.
pub async fn on_three_nodes_of<F>(raw: RawPlatform, test: F)
where
    F: AsyncFn(Nodes) -> Nodes,
{
    play_on(store::testing::postgres().await, "", raw, test).await;
}

/// Runs a test on three nodes that receive each other's notices, and on three that do not: notices
/// only speed changes up, so no guarantee may depend on them.
pub async fn on_hearing_and_deaf_nodes<S, F>(overrides: &str, script: S, test: F)
where
    S: Fn(&Seen, usize) -> Script + Clone + Send + Sync + 'static,
    F: AsyncFn(Nodes) -> Nodes,
{
    on_three_nodes(overrides, script.clone(), &test).await;
    let database = store::testing::postgres().await;
    for statement in MUTE {
        store::testing::run_raw(&database, statement).await.unwrap();
    }
    play(database, overrides, script, test).await;
}

async fn play<S, F>(database: store::testing::TestStore, overrides: &str, script: S, test: F)
where
    S: Fn(&Seen, usize) -> Script + Clone + Send + Sync + 'static,
    F: AsyncFn(Nodes) -> Nodes,
{
    play_on(database, overrides, RawPlatform::playing(script).await, test).await;
}

async fn play_on<F>(database: store::testing::TestStore, overrides: &str, raw: RawPlatform, test: F)
where
    F: AsyncFn(Nodes) -> Nodes,
{
    Nodes::on(database, overrides, raw, test).await;
}

impl Nodes {
    /// Runs a test on three nodes of this database.
    pub async fn on<F>(
        database: store::testing::TestStore,
        overrides: &str,
        raw: RawPlatform,
        test: F,
    ) where
        F: AsyncFn(Self) -> Self,
    {
        let stage = Box::pin(Stage::set(database, "platform_alpha", raw, overrides)).await;
        let mut others = Vec::new();
        for seed in [71, 72] {
            others.push(Node::start(&stage.app, stage.app.config().clone(), seed).await);
        }
        let nodes = Box::pin(test(Nodes { stage, others })).await;
        for node in nodes.others {
            node.stop().await;
        }
        nodes.stage.app.end().await;
    }

    /// A client with this key for each node, the stage's own first.
    pub fn clients(&self, key: &str) -> Vec<Client> {
        let others = self.others.iter().map(|node| Client::new(node.running.address()));
        let all = std::iter::once(self.stage.app.anonymous()).chain(others);
        all.map(|client| client.with_key(key)).collect()
    }

    /// A client of the stage's customer for each node.
    pub fn own_clients(&self) -> Vec<Client> {
        self.clients(&self.stage.customer.key)
    }

    /// The service of each node, the stage's own first.
    pub fn running(&self) -> Vec<&RunningService> {
        let others = self.others.iter().map(|node| &node.running);
        std::iter::once(self.stage.app.running()).chain(others).collect()
    }

    /// The store of the `index`-th additional node.
    pub fn store_beside(&self, index: usize) -> &store::Store {
        self.others[index].running.store()
    }

    /// Kills the last node, so that its pending writes are lost.
    pub async fn kill_last(&mut self) {
        self.others.pop().unwrap().kill().await;
    }

    /// Takes the last node out, to be stopped in order while the others go on.
    pub fn retire_last(&mut self) -> impl Future<Output = ()> + Send + use<> {
        self.others.pop().unwrap().stop()
    }

    /// Starts an additional node with this id.
    pub async fn start_with_id(&mut self, node: &str, seed: u64) {
        let mut config = self.stage.app.config().clone();
        config.metering.node = node.to_owned();
        self.others.push(Node::start(&self.stage.app, config, seed).await);
    }
}

impl Node {
    /// Starts a node on the database and the clock of `first`; each node needs its own seed.
    async fn start(first: &TestApp, config: Config, seed: u64) -> Self {
        let clock = first.clock.clone();
        let started = tokio::task::spawn_blocking(move || {
            let runtime =
                Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
            let start = node::start::start(config, clock, Random::seeded(seed));
            (runtime.block_on(start).unwrap(), runtime)
        });
        let (running, runtime) = started.await.unwrap();
        Self { running, runtime }
    }

    async fn stop(self) {
        self.running.stop().await;
        shut(self.runtime).await;
    }

    async fn kill(self) {
        // This ends the writer and its connections; work still running on the cores can write
        // nothing.
        shut(self.runtime).await;
        drop(self.running);
    }
}

async fn shut(runtime: Runtime) {
    tokio::task::spawn_blocking(move || runtime.shutdown_timeout(DEATH)).await.unwrap();
}

/// Reads the stage's path on a node.
pub async fn read(stage: &Stage, client: &Client) -> Reply {
    client.get(&stage.path("users/me")).await
}
