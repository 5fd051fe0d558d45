//! A client that retries as the responses say (`retryable`, `X-Should-Retry`, `Retry-After`), under
//! every fault of the simulated platforms: no write is carried out twice, and with an
//! `Idempotency-Key` it is carried out once.
#![expect(
    clippy::expect_used,
    clippy::shadow_unrelated,
    reason = "an unexpected value must fail the test, and the latest response keeps the plain name"
)]

use serde_json::{Value, json};
use test_service::TestApp;
use test_service::client::{Client, Reply};

/// Alpha may not stall within a response, gamma not before it.
const IMPATIENT: &str = "[platforms.platform_alpha.timeouts]\nbetween_bytes_ms = 1000\n\
    [platforms.platform_gamma.timeouts]\nfirst_byte_ms = 1000\n";

/// The number of requests that meet a fault; then the platform works again.
const TIMES: usize = 2;

/// How a retry loop ended.
enum Ended {
    /// With a response below 400.
    Done(Reply),
    /// With an error that is not retryable.
    Stopped(Reply),
    /// Without a response, where nothing allows a retry.
    Lost,
}

/// The request that a loop repeats.
#[derive(Clone, Copy)]
enum Request<'a> {
    Read,
    Write { name: &'a str, key: Option<&'a str> },
}

struct Loops {
    app: TestApp,
    client: Client,
    gamma_id: String,
}

impl Loops {
    async fn set(database: store::testing::TestStore) -> Self {
        let app = TestApp::start(database, IMPATIENT).await;
        let (customer, client, _) = app.ready("platform_alpha", 100_000).await;
        app.connect(&customer, "platform_beta").await;
        app.connect(&customer, "platform_gamma").await;
        let accounts = simulators::demo_accounts(&app.settings);
        let gamma = accounts.iter().find(|it| it.creator_id == "demo_gamma").unwrap();
        let gamma_id = gamma.auth["account_id"].as_str().unwrap().to_owned();
        Self { app, client, gamma_id }
    }

    /// Every fault of the simulators, with short parameters, and the statuses that matter.
    async fn faults(&self) -> Vec<Value> {
        let control = Client::new(self.app.world.address());
        let catalogue = control.get("/control/faults").await.json();
        let kinds = catalogue["catalogue"].as_array().expect("the catalogue of faults");
        assert!(kinds.len() > 30, "{catalogue}");
        let mut faults: Vec<Value> = kinds
            .iter()
            .map(|kind| {
                let name = kind["kind"].as_str().unwrap();
                let platform = kind["platform"].as_str().unwrap_or(match name {
                    "silence" => "platform_gamma",
                    _ => "platform_alpha",
                });
                let mut fault = json!({"kind": name, "platform": platform});
                match name {
                    "delay" => fault["ms"] = json!(1),
                    "drip" => fault["pause_ms"] = json!(1),
                    "gzip_bomb" | "long_body" => fault["mebibytes"] = json!(1),
                    _ => {}
                }
                fault
            })
            .collect();
        for status in [400, 401, 403, 404, 408, 409, 421, 422, 425, 429, 500, 502, 503, 504, 999] {
            for headers in [json!({}), json!({"Retry-After": "3"})] {
                faults.push(json!({"kind": "status", "status": status, "headers": headers,
                    "platform": "platform_alpha"}));
            }
        }
        for status in [400, 500, 502, 504] {
            faults.push(json!({"kind": "status", "status": status, "carried_out": true,
                "platform": "platform_alpha"}));
        }
        faults
    }

    fn path(&self, platform: &str, request: Request<'_>) -> String {
        let native = match (platform, request) {
            ("platform_gamma", Request::Read) => {
                format!("demo_gamma/native/user/{}/user-lists?limit=100", self.gamma_id)
            }
            ("platform_gamma", _) => format!("demo_gamma/native/user/{}/user-lists", self.gamma_id),
            ("platform_beta", _) => "demo_beta/native/account/settings".to_owned(),
            (_, Request::Read) => "demo_alpha/native/lists?limit=100".to_owned(),
            _ => "demo_alpha/native/lists".to_owned(),
        };
        format!("/v1/{native}")
    }

    async fn send(&self, platform: &str, request: Request<'_>) -> Result<Reply, String> {
        let path = self.path(platform, request);
        let Request::Write { name, key } = request else {
            return self.client.try_send("GET", &path, None).await;
        };
        let client = self.client.with("content-type", "application/json");
        let client = key.map_or(client.clone(), |key| client.with("idempotency-key", key));
        let body = json!({"name": name}).to_string().into_bytes();
        client.try_send("POST", &path, Some(body)).await
    }

    /// Retries as the responses say, and lets the requested time pass.
    async fn obey(&self, platform: &str, request: Request<'_>, what: &str) -> Ended {
        let needs_no_hint = !matches!(request, Request::Write { key: None, .. });
        for attempt in 0..8 {
            if attempt == TIMES {
                self.app.no_faults().await;
            }
            let wait_s = match self.send(platform, request).await {
                Ok(reply) if reply.status < 400 => return Ended::Done(reply),
                Ok(reply) => {
                    let hint = reply.header("x-should-retry");
                    assert!(matches!(hint, "true" | "false"), "{what}: {}", reply.text());
                    if reply.header("x-error-source") == "gateway" {
                        assert_eq!(reply.json()["retryable"].to_string(), hint, "{what}");
                    }
                    if hint == "false" {
                        return Ended::Stopped(reply);
                    }
                    reply.header("retry-after").parse().unwrap_or(1)
                }
                Err(_) if needs_no_hint => 1,
                Err(_) => return Ended::Lost,
            };
            self.app.settled(&self.client).await;
            self.app.advance_seconds(wait_s);
        }
        panic!("{what}: the retry loop does not end");
    }

    /// How often the platform has the written item.
    async fn done(&self, platform: &str, name: &str) -> usize {
        self.app.no_faults().await;
        self.app.settled(&self.client).await;
        // By then every pause of the account has ended.
        self.app.advance_seconds(30);
        let there = self.send(platform, Request::Read).await.unwrap();
        assert_eq!(there.status, 200, "{}", there.text());
        there.text().matches(&format!("{name:?}")).count()
    }

    async fn start_fault(&self, fault: &Value) {
        let mut fault = fault.clone();
        if fault["kind"] != "refused" {
            fault["times"] = json!(TIMES);
        }
        self.app.fault(&fault).await;
    }

    async fn check_writes(&self, platform: &str, fault: &Value, number: usize) {
        for key in [None, Some(format!("loop-{number}"))] {
            let what = format!("{fault} with the key {key:?}");
            let name = format!("w-{number}-{}", key.is_some());
            let request = Request::Write { name: &name, key: key.as_deref() };
            self.start_fault(fault).await;
            let ended = self.obey(platform, request, &what).await;
            let done = self.done(platform, &name).await;
            assert!(done <= 1, "{what}: done {done} times");
            match &ended {
                Ended::Done(reply) if reply.status < 300 => assert_eq!(done, 1, "{what}"),
                Ended::Stopped(reply) if reply.code() == "outcome_unknown" => {}
                Ended::Stopped(reply) if reply.header("x-error-source") == "platform" => {}
                Ended::Stopped(reply) if reply.code() == "answer_not_stored" => {
                    assert_eq!(done, 1, "{what}");
                }
                Ended::Stopped(reply) => panic!("{what}: {}", reply.text()),
                Ended::Done(_) => {}
                Ended::Lost => assert!(key.is_none(), "{what}: lost"),
            }
            if key.is_some() {
                let again = self.send(platform, request).await.unwrap();
                let done = self.done(platform, &name).await;
                assert!(done <= 1, "{what}: done {done} times after {}", again.text());
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_obedient_loop_never_repeats_a_completed_write_under_any_fault() {
    let database = store::testing::store().await;
    let loops = Loops::set(database).await;
    for (number, fault) in loops.faults().await.iter().enumerate() {
        let platform = fault["platform"].as_str().unwrap();
        if platform != "platform_beta" {
            Box::pin(loops.check_writes(platform, fault, number)).await;
        }
        loops.start_fault(fault).await;
        let read = Box::pin(loops.obey(platform, Request::Read, &fault.to_string())).await;
        assert!(!matches!(read, Ended::Lost), "{fault}");
        loops.done("platform_alpha", "nothing").await;
    }
    Box::pin(loops.app.end()).await;
}
