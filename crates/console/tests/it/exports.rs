//! The pages of exports: requested, watched, downloaded, cancelled, deleted.

use serde_json::json;
use test_service::member::Member;
use test_service::{Browser, Page};
use test_service::{TestApp, with_app};

const ADA: &str = "ada@example.com";
const EXPORTS: &str = "/console/exports";

struct Desk {
    app: TestApp,
    member: Member,
    browser: Browser,
    account: String,
}

impl Desk {
    async fn new(app: TestApp) -> Self {
        let member = app.member(ADA).await;
        app.grant(&member.customer, 100).await;
        let account = app.connect(&member.customer, "platform_alpha").await;
        let browser = app.browser_of(&member).await;
        Self { app, member, browser, account }
    }

    async fn form(&self) -> Page {
        let account = &self.account;
        let path = format!("{EXPORTS}?new_account={account}&new_dataset=subscribers");
        self.browser.open(&path).await
    }

    /// Starts an export and returns the address of its page.
    async fn start(&self, fields: &[(&str, &str)]) -> String {
        let page = self.form().await;
        let done = self.browser.submit(&page, EXPORTS, fields).await;
        assert_eq!(done.status(), 303, "{}", done.words());
        done.location().to_owned()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_is_started_watched_and_downloaded() {
    with_app(async |app| {
        let desk = Desk::new(app).await;
        let page = desk.form().await;
        page.assert(200, "No exports yet").assert(200, "Start export for 10 credits");
        page.assert(200, "Columns (");

        let path = desk.start(&[("fmt", "csv"), ("max_rows", "20"), ("csv_bom", "yes")]).await;
        let running = desk.browser.open(&path).await;
        running.assert(200, "It keeps running.").assert(200, "Waiting");
        assert!(running.html().contains(&format!("data-poll=\"{path}/status\"")));
        assert!(running.html().contains("<noscript><meta http-equiv=\"refresh\""));
        let all = desk.browser.open("/console/exports/running").await;
        all.assert(200, "10 credits held");
        desk.app.run_exports().await;
        let status = desk.browser.open(&format!("{path}/status")).await;
        let done = desk.browser.open(&path).await;

        assert!(!status.html().contains("data-poll") && !done.html().contains("data-poll"));
        done.assert(200, "Completed").assert(200, "20 rows").assert(200, "10 credits charged");
        let id = path.rsplit('/').next().unwrap_or_default();
        let client = desk.app.with_key(&desk.member.customer.key);
        let record = client.get(&format!("/v1/exports/{id}")).await.json();
        done.assert(200, record["sha256"].as_str().unwrap_or_default());
        done.assert(200, "$CGW_KEY");
        let file = desk.browser.open(&format!("{path}/download")).await;
        let whole = client.get(&format!("/v1/exports/{id}/download")).await;
        assert_eq!(file.status(), 200);
        assert_eq!(file.reply().body, whole.body);
        assert_eq!(file.reply().header("content-disposition"), whole.header("content-disposition"));
        let part = desk.browser.client().with("range", "bytes=3-5");
        let part = part.get(&format!("{path}/download")).await;
        assert_eq!((part.status, &part.body[..]), (206, &whole.body[3..6]));
        let none = desk.browser.open("/console/exports/running").await;
        none.assert(200, "No exports are running now.");
        let list = desk.browser.open(EXPORTS).await;
        list.assert(200, "Download").assert(200, "Files are kept for 7 days");
        desk.app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_form_starts_one_export_and_wrong_fields_are_named() {
    with_app(async |app| {
        let desk = Desk::new(app).await;
        let page = desk.form().await;
        let wrong =
            [("start_date", "2026-11-02"), ("end_date", "2026-11-01"), ("max_rows", "none")];
        let wrong = desk.browser.submit(&page, EXPORTS, &wrong).await;
        let mark = [("fmt", "xlsx"), ("csv_bom", "yes")];
        let mark = desk.browser.submit(&page, EXPORTS, &mark).await;
        let column =
            desk.browser.submit(&page, EXPORTS, &[("columns", "id"), ("columns", "id")]).await;
        let no_key = desk.browser.submit(&page, EXPORTS, &[("key_id", "")]).await;

        wrong.assert(422, "Check the fields marked below.");
        assert_eq!(wrong.field(EXPORTS, "max_rows"), "none");
        mark.assert(422, "Can only be true with");
        column.assert(422, "Is already in the list");
        no_key.assert(422, "Choose the key that pays.");
        let fields = [("fmt", "jsonl")];
        let first = desk.browser.submit(&page, EXPORTS, &fields).await;
        let again = desk.browser.submit(&page, EXPORTS, &fields).await;
        assert_eq!((first.status(), again.status()), (303, 303));
        assert_eq!(first.location(), again.location());
        desk.app.run_exports().await;
        desk.app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_export_is_cancelled_for_free_and_a_finished_one_deleted() {
    with_app(async |app| {
        let desk = Desk::new(app).await;
        let waiting = desk.start(&[]).await;
        let cancel = format!("{waiting}/cancel");
        let page = desk.browser.open(&cancel).await;
        page.assert(200, "It is free until its first page has been read.");

        let done = desk.browser.submit_and_follow(&page, &cancel, &[]).await;
        done.assert(200, "Cancelled").assert(200, "Not charged");
        let late = desk.browser.submit_and_follow(&page, &cancel, &[]).await;
        late.assert(200, "The export had already ended.");

        let finished = desk.start(&[("max_rows", "5")]).await;
        let delete = format!("{finished}/delete");
        let sure = desk.browser.open(&delete).await;
        let early = desk.browser.submit_and_follow(&sure, &delete, &[]).await;
        early.assert(200, "Cancel it first.");
        desk.app.run_exports().await;
        let gone = desk.browser.submit_and_follow(&sure, &delete, &[]).await;
        gone.assert(200, "The export is deleted.");
        let file = desk.browser.open(&format!("{finished}/download")).await;
        assert!(matches!(file.status(), 404 | 409 | 410), "{}", file.words());
        assert!(file.html().contains("<h1"), "a person reads a page: {}", file.html());
        desk.app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_export_says_why_with_its_code_and_is_free() {
    with_app(async |app| {
        let desk = Desk::new(app).await;
        let path = desk.start(&[]).await;
        let client = desk.app.with_key(&desk.member.customer.key);
        let off = json!({"state": "inactive"});
        let off = client.json("PATCH", &format!("/v1/accounts/{}", desk.account), &off).await;
        assert_eq!(off.status, 200);
        desk.app.run_exports().await;

        let failed = desk.browser.open(&path).await;
        let id = path.rsplit('/').next().unwrap_or_default();
        let record = client.get(&format!("/v1/exports/{id}")).await.json();
        let code = record["error"]["code"].as_str().unwrap_or_default().to_owned();

        failed.assert(200, "Failed").assert(200, "Not charged.").assert(200, &code);
        assert!(failed.html().contains(&format!("href=\"/docs/errors#{code}\"")));
        let listed = desk.browser.open(&format!("{EXPORTS}?status=failed")).await;
        listed.assert(200, "Run again").assert(200, &code);
        let none = desk.browser.open(&format!("{EXPORTS}?status=completed")).await;
        none.assert(200, "No exports match");
        let wrong = desk.browser.open(&format!("{EXPORTS}?status=odd&account=%3Cb%3E")).await;
        wrong.assert(422, "Check the fields marked below.").assert(422, "Run again");
        desk.app
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exports_need_a_full_key_and_those_of_others_are_not_there() {
    let desk = Desk::new(TestApp::on_sqlite("").await).await;
    let client = desk.app.with_key(&desk.member.customer.key);
    let new = json!({"name": "reader", "scope": "read_only"});
    let reader = client.post("/v1/auth/keys", &new).await.json();
    let reader = reader["key_id"].as_str().unwrap_or_default().to_owned();
    let (_, other, account) = desk.app.ready("platform_alpha", 50).await;
    let wanted = json!({"dataset": "subscribers"});
    let export = other.post(&format!("/v1/{account}/exports"), &wanted).await.json();
    let id = export["job_id"].as_str().unwrap_or_default();
    let page = desk.form().await;
    assert!(!page.html().contains(&reader), "a key that cannot pay is offered");

    let refused = desk.browser.submit(&page, EXPORTS, &[("key_id", &reader)]).await;
    assert_eq!(refused.status(), 403, "{}", refused.words());
    for rest in ["", "/status", "/download", "/cancel", "/delete"] {
        let hidden = desk.browser.open(&format!("{EXPORTS}/{id}{rest}")).await;
        hidden.assert(404, "There's nothing here, or it isn't yours.");
    }
    desk.app.run_exports().await;
    desk.app.end().await;
}
