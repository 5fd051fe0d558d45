//! A database that stalls or is unavailable: callers do not wait long, nothing is sent or charged,
//! and the node reports it.

use serde_json::json;
use store::DatabaseKind;
use store::testing::run_raw;
use test_service::platform::{Script, Seen};
use test_service::stage::{CREDITS, Stage, on_stage};

fn decent(_: &Seen, _: usize) -> Script {
    Script::json(200, "{}")
}

/// Makes the recording of a call take a second.
const SLOW: [&str; 3] = [
    "create function take_time() returns trigger language plpgsql as
     $$ begin perform pg_sleep(1); return new; end $$",
    "create trigger take_time before insert on open_calls for each row execute function take_time()",
    "create trigger take_time before insert on ended_calls for each row execute function take_time()",
];

fn is_shared(stage: &Stage) -> bool {
    stage.app.store().database() == DatabaseKind::Postgres
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_that_takes_too_long_refuses_the_call_and_is_refunded() {
    let overrides = "[metering]\nhold_wait_max_ms = 100";
    on_stage("platform_alpha", overrides, decent, async |stage| {
        // SQLite has no statement that sleeps; only its disk can stall.
        if !is_shared(&stage) {
            return stage;
        }
        for statement in SLOW {
            run_raw(stage.app.store(), statement).await.unwrap();
        }

        for reply in [stage.get("users/me").await, stage.post("lists", &json!({})).await] {
            assert_eq!(reply.failure(), (503, "database_unavailable".to_owned()));
            assert_eq!(reply.json()["retryable"], true, "{}", reply.text());
            assert_eq!(reply.header("retry-after"), "1", "{}", reply.text());
        }
        // Their holds are committed later, and then refunded.
        while stage.log().await.len() < 2 {}
        let endings: Vec<_> = stage
            .log()
            .await
            .iter()
            .map(|call| (call["outcome"].clone(), call["credits"].clone()))
            .collect();
        assert_eq!(endings, vec![(json!("not_dispatched"), json!(0)); 2]);

        assert_eq!((stage.platform.calls().len(), stage.balance().await), (0, CREDITS));
        run_raw(stage.app.store(), "drop function take_time cascade").await.unwrap();
        assert_eq!(stage.get("users/me").await.status, 200);
        stage
    })
    .await;
}

/// For a client that obeys `Retry-After`: the idempotency key is free again once the late hold is
/// refunded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_write_whose_hold_took_too_long_is_carried_out_once() {
    let overrides = "[metering]\nhold_wait_max_ms = 100";
    on_stage("platform_alpha", overrides, decent, async |stage| {
        if !is_shared(&stage) {
            return stage;
        }
        for statement in SLOW {
            run_raw(stage.app.store(), statement).await.unwrap();
        }
        let writing = stage.client.with("idempotency-key", "order-17");
        let path = stage.path("lists");
        let late = writing.post(&path, &json!({})).await;
        assert_eq!(late.failure(), (503, "database_unavailable".to_owned()));
        run_raw(stage.app.store(), "drop function take_time cascade").await.unwrap();

        let mut repeat = writing.post(&path, &json!({})).await;
        while repeat.status != 200 {
            assert_eq!(repeat.json()["retryable"], true, "{}", repeat.text());
            repeat = writing.post(&path, &json!({})).await;
        }

        let again = writing.post(&path, &json!({})).await;
        assert_eq!((again.status, again.header("idempotent-replayed")), (200, "true"));
        assert_eq!(stage.platform.calls().len(), 1);
        assert_eq!(stage.balance().await, CREDITS - 2);
        stage
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_commit_of_a_hold_is_reported_as_a_failure_of_the_database() {
    const REFUSE: [&str; 2] = [
        "create trigger refuse_calls before insert on open_calls
         begin select raise(abort, 'refused for the test'); end",
        "create trigger refuse_calls before insert on open_calls
         for each row execute function refuse_change('refused for the test')",
    ];
    const ALLOW: [&str; 2] =
        ["drop trigger refuse_calls", "drop trigger refuse_calls on open_calls"];
    on_stage("platform_alpha", "", decent, async |stage| {
        let shared = usize::from(is_shared(&stage));
        run_raw(stage.app.store(), REFUSE[shared]).await.unwrap();

        let write = stage.post("lists", &json!({})).await;
        let ready = stage.app.admin().get("/ready").await;

        assert_eq!(write.failure(), (503, "database_unavailable".to_owned()));
        assert_eq!(write.json()["retryable"], true, "{}", write.text());
        assert_eq!((ready.status, &ready.json()["database"]), (503, &json!(false)));
        run_raw(stage.app.store(), ALLOW[shared]).await.unwrap();
        assert_eq!((stage.platform.calls().len(), stage.balance().await), (0, CREDITS));
        assert_eq!(stage.post("lists", &json!({})).await.status, 200);
        stage
    })
    .await;
}
