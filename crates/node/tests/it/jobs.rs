//! Jobs: started by a signal, retried after failures, taken over from dead nodes, never lost.
#![expect(
    clippy::shadow_unrelated,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "an unexpected value must fail the test, and each test has its own stack"
)]

use domain::id::{JobId, NodeId};
use domain::job::JobKind;
use domain::time::Timestamp;
use serde_json::json;
use store::jobs::{self, JobClaimant, JobCounts, NewJob};
use test_service::{Client, TestApp, with_app};

const ADA: &str = "ada@example.com";

async fn counts(app: &TestApp) -> JobCounts {
    jobs::count(app.store()).await.unwrap()
}

/// The seconds until the next waiting job is due.
async fn wait_s(app: &TestApp) -> i64 {
    let due: Timestamp = jobs::next_due(app.store()).await.unwrap().unwrap();
    due.micros_since(app.clock.now()) / 1_000_000
}

/// Claims the only job for a node that then dies.
async fn claim_and_die(app: &TestApp, node: NodeId) {
    let now = app.clock.now();
    let claimant = JobClaimant { node, now, leased_until: now.plus_seconds(120) };
    assert!(jobs::claim(app.store(), &claimant).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_temporarily_refused_email_is_sent_later_and_not_lost() {
    with_app(async |app| {
        let member = app.member(ADA).await;
        app.refuse_mails(3, 451).await;

        let mut waits = Vec::new();
        for _ in 0..3 {
            assert_eq!(app.run_jobs().await, 1);
            assert_eq!(app.run_jobs().await, 0, "the job must not run before it is due");
            waits.push(wait_s(&app).await);
            app.advance_seconds(waits.last().unwrap() + 1);
        }
        let mails = app.mails_to(ADA).await;

        assert_eq!(mails.len(), 1);
        let ranges = [5..=6, 10..=12, 20..=24];
        assert!(ranges.iter().zip(&waits).all(|(range, wait)| range.contains(wait)), "{waits:?}");
        assert_eq!(counts(&app).await, JobCounts::default());
        app.confirm(&member.customer.key, ADA).await;
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn emails_wait_for_an_unavailable_mail_server_even_across_a_restart() {
    let database = store::testing::store().await;
    let mut app = TestApp::start(database, "[mail]\nurl = \"smtp://127.0.0.1:1\"").await;
    app.member(ADA).await;
    assert_eq!(app.run_jobs().await, 1);
    assert_eq!(counts(&app).await, JobCounts { waiting: 1, given_up: 0 });
    let url = format!("smtp://{}", app.world.mail_address());

    app.stop_service().await;
    app.start_service(|config| config.mail.url = url).await.unwrap();
    app.advance_seconds(60);

    assert_eq!(app.mails_to(ADA).await.len(), 1);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permanently_refused_email_is_set_aside_for_the_operator() {
    with_app(async |app| {
        app.member(ADA).await;
        app.refuse_mails(1, 550).await;

        assert_eq!(app.run_jobs().await, 1);

        app.advance_seconds(9_999);
        assert_eq!(app.run_jobs().await, 0);
        assert_eq!(counts(&app).await, JobCounts { waiting: 0, given_up: 1 });
        let retried = app.staff(json!({"command": "retry_jobs"})).await;
        assert_eq!(retried["jobs"], 1);
        assert_eq!(app.mails_to(ADA).await.len(), 1);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_keeps_failing_is_given_up_after_three_days() {
    let app = TestApp::on_sqlite("").await;
    app.member(ADA).await;
    app.refuse_mails(1_000, 451).await;

    let mut attempts = 0;
    while counts(&app).await.given_up == 0 {
        attempts += app.run_jobs().await;
        assert!(attempts < 200, "the job must not be retried forever");
        app.advance_seconds(3_600 + 720);
    }

    assert!(attempts > 50, "{attempts}");
    app.refuse_mails(0, 451).await;
    app.staff(json!({"command": "retry_jobs"})).await;
    assert_eq!(app.mails_to(ADA).await.len(), 1);
    app.end().await;
}

/// The node that was about to send the email is killed; another one sends it after the lease has
/// expired.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_email_of_a_dead_node_is_sent_after_its_lease() {
    with_app(async |app| {
        app.member(ADA).await;
        claim_and_die(&app, NodeId::new(app.clock.now(), [5; 10])).await;

        assert_eq!(app.run_jobs().await, 0);
        app.advance_seconds(120);
        assert_eq!(app.run_jobs().await, 0);
        store::testing::take_over(app.store(), app.clock.now()).await.unwrap();

        assert_eq!(app.mails_to(ADA).await.len(), 1);
        app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_node_resumes_its_jobs() {
    let node = NodeId::new(Timestamp::from_unix_micros(1), [6; 10]);
    let database = store::testing::store().await;
    let app = TestApp::start(database, &format!("[metering]\nnode = \"{node}\"")).await;
    app.member(ADA).await;
    claim_and_die(&app, node).await;
    assert_eq!(app.run_jobs().await, 0);

    let app = app.restart().await;

    assert_eq!(app.mails_to(ADA).await.len(), 1);
    app.end().await;
}

/// The timer would fire only in an hour, so the signal must wake the workers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_send_an_email_as_soon_as_it_is_requested() {
    let database = store::testing::store().await;
    let app = TestApp::start(database, "[jobs]\nworkers = 2\npoll_ms = 3600000").await;
    app.member(ADA).await;
    let again = json!({"email": ADA});
    app.anonymous().post("/v1/auth/email/resend", &again).await;

    arrived(&app, 2).await;

    app.end().await;
}

/// Without a signal the timer finds the job.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_find_a_job_without_a_signal() {
    let database = store::testing::store().await;
    let app = TestApp::start(database, "[jobs]\nworkers = 1\npoll_ms = 100").await;
    app.refuse_mails(1, 451).await;
    app.member(ADA).await;
    while store_waits(&app).await {}

    app.advance_seconds(10);

    arrived(&app, 1).await;
    app.end().await;
}

/// Whether the only job has not been attempted yet.
async fn store_waits(app: &TestApp) -> bool {
    let due = jobs::next_due(app.store()).await.unwrap().unwrap();
    due <= app.clock.now() || due >= app.clock.now().plus_seconds(60)
}

/// Waits until `wanted` emails have arrived, without running a job.
async fn arrived(app: &TestApp, wanted: usize) {
    let control = Client::new(app.world.address());
    for _ in 0..20_000 {
        let mails = control.get("/control/mail").await.json();
        if mails["mails"].as_array().unwrap().len() == wanted && counts(app).await.waiting == 0 {
            return;
        }
    }
    panic!("the emails did not arrive");
}

/// A job of another version must not stop the runner, and a node that can read it may start later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_job_is_kept_and_others_run() {
    with_app(async |app| {
        let job = |number, kind, payload: &str| NewJob {
            id: JobId::new(app.clock.now(), [number; 10]),
            kind,
            payload: payload.to_owned(),
            created_at: app.clock.now(),
        };
        let unreadable = [
            job(1, JobKind::SendMail, r#"{"letter":"of_another_version","email":"a@b.cd"}"#),
            job(2, JobKind::SendMail, "no json"),
            job(3, JobKind::ProcessEvent, r#"{"events":["evt_1"]}"#),
        ];
        for job in &unreadable {
            jobs::enqueue(app.store(), job).await.unwrap();
        }
        // As the previous version wrote it, and with a member that a newer one adds.
        for (number, payload) in [
            (4, r#"{"letter":"password_reset","email":"ada@example.com"}"#),
            (5, r#"{"letter":"password_reset","email":"ada@example.com","language":"en"}"#),
        ] {
            let job = job(number, JobKind::SendMail, payload);
            jobs::enqueue(app.store(), &job).await.unwrap();
        }

        let mails = app.mails_to(ADA).await;

        assert_eq!(mails.len(), 2);
        assert_eq!(counts(&app).await, JobCounts { waiting: 3, given_up: 0 });
        app.advance_seconds(domain::job::GIVE_UP_AFTER_S);
        app.run_jobs().await;
        assert_eq!(counts(&app).await, JobCounts { waiting: 0, given_up: 3 });
        for job in unreadable {
            assert!(jobs::finish(app.store(), job.id, 2).await.unwrap());
        }
        app
    })
    .await;
}
