//! Exports and datasets as the service reports them, and as pages show them.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::keys::view::StateBadge;
use console_kit::format;
use pages::plain::sentence;

/// The members of `GET /v1/exports` that pages show.
#[derive(Deserialize)]
pub(super) struct ExportList {
    pub(super) exports: Vec<ShownExport>,
    pub(super) next_before: Option<String>,
}

/// An export.
#[derive(Deserialize, Clone)]
pub(super) struct ShownExport {
    #[serde(rename = "job_id")]
    pub(super) id: String,
    pub(super) account: String,
    pub(super) platform: String,
    pub(super) dataset: String,
    pub(super) fmt: String,
    csv_bom: bool,
    pub(super) columns: Option<Vec<String>>,
    params: Map<String, Value>,
    start_date: Option<String>,
    end_date: Option<String>,
    pub(super) max_rows: Option<i64>,
    pub(super) status: String,
    credits: ExportCredits,
    pub(super) progress: ExportProgress,
    rows: Option<i64>,
    bytes: Option<i64>,
    pub(super) sha256: Option<String>,
    error: Option<ExportError>,
    pub(super) created_at: String,
    pub(super) started_at: Option<String>,
    pub(super) finished_at: Option<String>,
    pub(super) expires_at: Option<String>,
    removal: Option<FileRemoval>,
}

/// Where its credits are.
#[derive(Deserialize, Clone)]
struct ExportCredits {
    charged: i64,
    held: i64,
}

/// How far it is.
#[derive(Deserialize, Clone)]
pub(super) struct ExportProgress {
    phase: Option<String>,
    pages: i64,
    pub(super) rows: i64,
    rows_per_second: i64,
    list_rows: Option<i64>,
    list_rows_read: i64,
    waiting_until: Option<String>,
}

/// Why it failed, or what it waits for.
#[derive(Deserialize, Clone)]
pub(super) struct ExportError {
    pub(super) code: String,
    message: String,
    pub(super) retryable: bool,
}

/// Why its file is gone.
#[derive(Deserialize, Clone)]
struct FileRemoval {
    reason: String,
}

/// How much of a list has been read, for a bar.
pub(super) struct BarValue {
    pub(super) value: i64,
    pub(super) max: i64,
    pub(super) percent: i64,
}

impl ExportError {
    pub(super) fn words(&self) -> String {
        sentence(&self.message)
    }
}

impl ShownExport {
    pub(super) fn is_running(&self) -> bool {
        matches!(self.status.as_str(), "pending" | "running" | "cancelling")
    }

    pub(super) fn is_ready(&self) -> bool {
        self.status == "completed"
    }

    pub(super) fn is_deleted(&self) -> bool {
        self.status == "deleted"
    }

    /// Whether it can be asked to stop.
    pub(super) fn can_stop(&self) -> bool {
        matches!(self.status.as_str(), "pending" | "running")
    }

    pub(super) fn badge(&self) -> StateBadge {
        let (class, word) = match self.status.as_str() {
            "pending" => ("run", "Waiting"),
            "running" => ("run", "Running"),
            "cancelling" => ("run", "Stopping"),
            "completed" => ("ok", "Completed"),
            "failed" => ("bad", "Failed"),
            "cancelled" => ("", "Cancelled"),
            "expired" => ("", "Expired"),
            "deleted" => ("", "Deleted"),
            other => ("", other),
        };
        StateBadge { class, word: word.to_owned() }
    }

    /// Why it failed, once it has.
    pub(super) fn failure(&self) -> Option<&ExportError> {
        self.error.as_ref().filter(|_| self.status == "failed")
    }

    /// What it waits for while it runs.
    pub(super) fn wait(&self) -> String {
        let until = self.progress.waiting_until.as_deref();
        let until = until.map(|at| format!(" It continues at {} UTC.", format::time(at)));
        match (&self.error, until) {
            (Some(error), until) if self.is_running() => {
                format!("{}{}", error.words(), until.unwrap_or_default())
            }
            (None, Some(until)) if self.is_running() => {
                format!("The platform asked for a pause.{until}")
            }
            _ => String::new(),
        }
    }

    /// The format in words.
    pub(super) fn format(&self) -> &'static str {
        match self.fmt.as_str() {
            "csv" if self.csv_bom => "CSV with a byte order mark",
            "csv" => "CSV",
            "jsonl" => "JSON lines",
            "xlsx" => "XLSX",
            _ => "ZIP",
        }
    }

    /// The dates in words.
    pub(super) fn window(&self) -> String {
        let shown = |at: &String| {
            if at.len() == 10 {
                format::day(&format!("{at}T00:00:00Z"))
            } else {
                format::minute(at)
            }
        };
        match (self.start_date.as_ref().map(shown), self.end_date.as_ref().map(shown)) {
            (Some(start), Some(end)) => format!("{start} to {end}"),
            (Some(start), None) => format!("since {start}"),
            (None, Some(end)) => format!("until {end}"),
            (None, None) => "all dates".to_owned(),
        }
    }

    /// Its parameters, such as `chat_id 7`.
    pub(super) fn parameters(&self) -> String {
        let texts = self.params.iter().map(|(name, value)| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            format!("{name} {value}")
        });
        texts.collect::<Vec<_>>().join(", ")
    }

    pub(super) fn rows_shown(&self) -> String {
        self.rows.map_or_else(|| "–".to_owned(), format::number)
    }

    pub(super) fn size(&self) -> String {
        self.bytes.map_or_else(|| "–".to_owned(), size)
    }

    pub(super) fn created(&self) -> String {
        format::minute(&self.created_at)
    }

    /// What became of its credits.
    pub(super) fn cost(&self) -> String {
        let ExportCredits { charged, held } = self.credits;
        match (charged, held) {
            (0, 0) => "Not charged".to_owned(),
            (0, held) => format!("{} held, charged only if it completes", format::credits(held)),
            (charged, _) => format!("{} charged", format::credits(charged)),
        }
    }

    /// Why its file is gone, as a sentence.
    pub(super) fn removal(&self) -> String {
        let why = match self.removal.as_ref().map(|removal| removal.reason.as_str()) {
            Some("file_missing") => {
                "The file is missing from the storage. Contact support, or run the export again."
            }
            Some("removed_by_customer") => "You deleted it.",
            Some("removed_by_support") => "Support deleted it.",
            Some(_) => {
                let until = self.expires_at.as_deref().map(format::minute);
                let until = until.map(|at| format!("until {at} UTC ")).unwrap_or_default();
                return format!(
                    "The file was kept {until}and has been deleted. Run the export again to get a new one."
                );
            }
            None => "",
        };
        why.to_owned()
    }

    /// What its worker does now.
    pub(super) fn phase(&self) -> &'static str {
        match (self.status.as_str(), self.progress.phase.as_deref()) {
            ("pending", _) => "Waiting for a worker",
            ("cancelling", _) => "Stopping",
            (_, Some("checking")) => "Checking that the list hasn't changed",
            (_, Some("writing")) => "Writing the file",
            _ => "Reading the list",
        }
    }

    /// How far it is, in words.
    pub(super) fn pace(&self) -> String {
        let ExportProgress { pages, rows_per_second, .. } = self.progress;
        if pages == 0 {
            return "Nothing read yet".to_owned();
        }
        let page = format::counted(pages, "page");
        format!("{page} read, {} a second", format::counted(rows_per_second, "row"))
    }

    pub(super) fn rows_read(&self) -> String {
        format::number(self.progress.rows)
    }

    pub(super) fn row_limit(&self) -> Option<String> {
        self.max_rows.map(format::number)
    }

    /// The rows so far, of how many.
    pub(super) fn rows_of(&self) -> String {
        match (self.progress.list_rows, self.max_rows) {
            (Some(all), _) => format!("of {} in the list", format::number(all)),
            (None, Some(max)) => format!("of at most {} rows", format::number(max)),
            (None, None) => "rows so far".to_owned(),
        }
    }

    /// The bar's value; none if the length is unknown.
    pub(super) fn bar(&self) -> Option<BarValue> {
        let ExportProgress { rows, list_rows, list_rows_read, .. } = self.progress;
        let (value, max) = match (list_rows, self.max_rows) {
            (Some(all), _) => (list_rows_read, all),
            (None, Some(max)) => (rows, max),
            (None, None) => return None,
        };
        let max = max.max(1);
        let value = value.clamp(0, max);
        Some(BarValue { value, max, percent: value.saturating_mul(100) / max })
    }
}

/// A number of bytes as people read it: `17.2 KB`.
fn size(bytes: i64) -> String {
    let tenths =
        |unit: i64| format!("{}.{}", format::number(bytes / unit), bytes % unit * 10 / unit);
    match bytes {
        ..1_000 => format!("{} bytes", format::number(bytes)),
        1_000..1_000_000 => format!("{} KB", tenths(1_000)),
        1_000_000..1_000_000_000 => format!("{} MB", tenths(1_000_000)),
        _ => format!("{} GB", tenths(1_000_000_000)),
    }
}

/// The members of `GET /v1/exports/datasets` that pages show.
#[derive(Deserialize)]
pub(super) struct DatasetList {
    pub(super) datasets: Vec<ShownDataset>,
}

/// A list of a platform that can be exported.
#[derive(Deserialize, Clone)]
pub(super) struct ShownDataset {
    pub(super) platform: String,
    #[serde(rename = "dataset")]
    pub(super) name: String,
    pub(super) description: String,
    pub(super) formats: Vec<String>,
    pub(super) params: Vec<DatasetParameter>,
    pub(super) columns: Vec<ShownColumn>,
    pub(super) scopes: Vec<String>,
}

/// A parameter of a dataset.
#[derive(Deserialize, Clone)]
pub(super) struct DatasetParameter {
    pub(super) name: String,
    pub(super) description: String,
}

/// A column of its files.
#[derive(Deserialize, Clone)]
pub(super) struct ShownColumn {
    pub(super) name: String,
    pub(super) r#type: String,
    unit: Option<String>,
}

impl ShownColumn {
    /// The unit in words; empty if it has none.
    pub(super) fn unit(&self) -> &str {
        match self.unit.as_deref() {
            Some("mills") => "thousandths of a US dollar",
            Some("cents") => "US cents",
            Some("dollars") => "US dollars",
            Some("minor_units") => "hundredths of the row's currency",
            Some("unix_seconds") => "seconds since 1970",
            Some("unix_millis") => "milliseconds since 1970",
            Some("rfc3339") => "RFC 3339",
            Some(other) => other,
            None => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// An export in this state. Members that are objects are changed member by member.
    fn export(status: &str, changes: &Value) -> ShownExport {
        let mut all = json!({
            "job_id": "exp_1", "account": "ada", "platform": "platform_alpha",
            "dataset": "subscribers", "fmt": "csv", "csv_bom": false, "columns": null,
            "params": {}, "start_date": null, "end_date": null, "max_rows": null, "status": status,
            "credits": {"charged": 0, "held": 10, "refunded": 0},
            "progress": {
                "phase": null, "pages": 0, "rows": 0, "rows_per_second": 0, "list_rows": null,
                "list_rows_read": 0, "estimated_end": null, "waiting_until": null,
            },
            "rows": null, "bytes": null, "sha256": null, "error": null,
            "created_at": "2026-11-22T11:27:49Z", "started_at": null, "finished_at": null,
            "expires_at": null, "removal": null,
        });
        let members = all.as_object_mut().unwrap();
        for (name, value) in changes.as_object().unwrap() {
            match (members.get_mut(name).unwrap(), value) {
                (Value::Object(old), Value::Object(new)) => old.extend(new.clone()),
                (old, new) => *old = new.clone(),
            }
        }
        serde_json::from_value(all).unwrap()
    }

    #[test]
    fn each_state_has_a_word_and_what_can_be_done_in_it() {
        for (status, word, is_running, can_stop) in [
            ("pending", "Waiting", true, true),
            ("running", "Running", true, true),
            ("cancelling", "Stopping", true, false),
            ("completed", "Completed", false, false),
            ("failed", "Failed", false, false),
            ("cancelled", "Cancelled", false, false),
            ("expired", "Expired", false, false),
            ("deleted", "Deleted", false, false),
        ] {
            let shown = export(status, &json!({}));

            assert_eq!(shown.badge().word, word);
            assert_eq!((shown.is_running(), shown.can_stop()), (is_running, can_stop), "{status}");
            assert_eq!(shown.is_ready(), status == "completed");
            assert_eq!(shown.is_deleted(), status == "deleted");
        }
    }

    #[test]
    fn its_cost_says_what_was_charged_and_what_only_may_be() {
        let cost = |charged: i64, held: i64| {
            export("running", &json!({"credits": {"charged": charged, "held": held}})).cost()
        };

        assert_eq!(cost(0, 0), "Not charged");
        assert_eq!(cost(0, 10), "10 credits held, charged only if it completes");
        assert_eq!(cost(10, 0), "10 credits charged");
        assert_eq!(cost(1, 0), "1 credit charged");
    }

    #[test]
    fn an_error_is_a_failure_once_it_has_failed_and_a_wait_before() {
        let message = "the platform asked for a pause";
        let error = json!({"code": "rate_limited", "message": message, "retryable": true});
        let until = json!({"waiting_until": "2026-11-22T11:30:00Z"});
        let changes = json!({"error": error, "progress": until});
        let failed = export("failed", &changes);
        let waiting = export("running", &changes);

        let words = failed.failure().map(ExportError::words);
        assert_eq!(words.as_deref(), Some("The platform asked for a pause."));
        assert_eq!(failed.wait(), "");
        assert!(waiting.failure().is_none(), "it has not failed");
        assert_eq!(waiting.wait(), "The platform asked for a pause. It continues at 11:30:00 UTC.");
    }

    #[test]
    fn a_pause_without_an_error_says_until_when() {
        let until = json!({"progress": {"waiting_until": "2026-11-22T12:00:05Z"}});

        let paused = export("running", &until).wait();

        assert_eq!(paused, "The platform asked for a pause. It continues at 12:00:05 UTC.");
        assert_eq!(export("completed", &until).wait(), "");
        assert_eq!(export("running", &json!({})).wait(), "");
    }

    #[test]
    fn its_dates_are_written_as_far_as_they_were_given() {
        let window = |start: Option<&str>, end: Option<&str>| {
            export("pending", &json!({"start_date": start, "end_date": end})).window()
        };

        assert_eq!(window(None, None), "all dates");
        assert_eq!(window(Some("2026-11-01"), None), "since 1 Nov 2026");
        assert_eq!(window(None, Some("2026-11-30")), "until 30 Nov 2026");
        let both = window(Some("2026-11-01"), Some("2026-11-02T08:30:00Z"));
        assert_eq!(both, "1 Nov 2026 to 2 Nov 2026, 08:30");
    }

    #[test]
    fn a_bar_needs_an_end_and_never_passes_it() {
        let bar = |progress: &Value, max: Option<i64>| {
            let shown = export("running", &json!({"progress": progress, "max_rows": max}));
            (shown.bar().map(|bar| (bar.value, bar.max, bar.percent)), shown.rows_of())
        };
        let read = |of: i64, all: i64| json!({"rows": 50, "list_rows": all, "list_rows_read": of});

        assert_eq!(bar(&json!({"rows": 7}), None), (None, "rows so far".to_owned()));
        let limited = bar(&json!({"rows": 50}), Some(200));
        assert_eq!(limited, (Some((50, 200, 25)), "of at most 200 rows".to_owned()));
        let whole = bar(&read(999, 1_000), Some(200));
        assert_eq!(whole, (Some((999, 1_000, 99)), "of 1,000 in the list".to_owned()));
        assert_eq!(bar(&read(12, 10), None).0, Some((10, 10, 100)), "a list that became shorter");
        assert_eq!(bar(&read(0, 0), None).0, Some((0, 1, 0)), "an empty list");
        assert_eq!(bar(&json!({"rows": 50}), Some(0)).0, Some((1, 1, 100)));
    }

    #[test]
    fn what_its_worker_does_is_said_in_words() {
        let phase = |status: &str, phase: Option<&str>| {
            export(status, &json!({"progress": {"phase": phase}})).phase()
        };

        assert_eq!(phase("pending", Some("writing")), "Waiting for a worker");
        assert_eq!(phase("cancelling", Some("reading")), "Stopping");
        assert_eq!(phase("running", Some("checking")), "Checking that the list hasn't changed");
        assert_eq!(phase("running", Some("writing")), "Writing the file");
        assert_eq!(phase("running", None), "Reading the list");
        let pace = json!({"progress": {"pages": 1, "rows_per_second": 1_200}});
        assert_eq!(export("running", &pace).pace(), "1 page read, 1,200 rows a second");
        assert_eq!(export("running", &json!({})).pace(), "Nothing read yet");
    }

    #[test]
    fn a_file_that_is_gone_says_why() {
        let removal = |reason: &str, expires: Option<&str>| {
            let changes = json!({"removal": {"reason": reason}, "expires_at": expires});
            export("deleted", &changes).removal()
        };

        assert_eq!(removal("removed_by_customer", None), "You deleted it.");
        assert_eq!(removal("removed_by_support", None), "Support deleted it.");
        assert!(removal("file_missing", None).contains("Contact support"));
        assert_eq!(
            removal("expired", Some("2026-11-29T12:00:00Z")),
            "The file was kept until 29 Nov 2026, 12:00 UTC and has been deleted. Run the export again to get a new one."
        );
        assert_eq!(export("completed", &json!({})).removal(), "");
    }

    #[test]
    fn sizes_are_written_in_the_unit_that_people_use() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (999, "999 bytes"),
            (1_000, "1.0 KB"),
            (17_260, "17.2 KB"),
            (999_999, "999.9 KB"),
            (2_100_000, "2.1 MB"),
            (12_345_000_000, "12.3 GB"),
        ] {
            assert_eq!(size(bytes), text);
        }
        assert_eq!(export("running", &json!({})).size(), "–");
        let done = export("completed", &json!({"rows": 1_234, "bytes": 17_260}));
        assert_eq!((done.rows_shown(), done.size()), ("1,234".to_owned(), "17.2 KB".to_owned()));
    }

    #[test]
    fn formats_and_parameters_are_in_words() {
        let format =
            |fmt: &str, bom: bool| export("pending", &json!({"fmt": fmt, "csv_bom": bom})).format();

        assert_eq!(format("csv", false), "CSV");
        assert_eq!(format("csv", true), "CSV with a byte order mark");
        assert_eq!((format("jsonl", false), format("xlsx", true)), ("JSON lines", "XLSX"));
        let with = export("pending", &json!({"params": {"chat_id": "7", "days": 3}}));
        assert_eq!(with.parameters(), "chat_id 7, days 3");
        assert_eq!(with.created(), "22 Nov 2026, 11:27");
        assert_eq!(with.row_limit(), None);
    }
}
