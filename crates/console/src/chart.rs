//! Charts of values per day, drawn on the server: an SVG for the plot alone, stretched to the width
//! of the page; labels are text beside it, so that they keep their size.

use std::fmt::Write;

use console_kit::format;

/// The plot's width, in its own units; the page stretches it.
const WIDTH: f64 = 900.0;
/// The plot's height, in its own units.
const HEIGHT: f64 = 180.0;
/// The share of a day's width that its bar takes.
const BAR_SHARE: f64 = 0.68;
/// The gap between the errors and the rest of a bar.
const GAP: f64 = 1.0;
/// The most labels below a plot.
const LABELS_MAX: usize = 5;

/// One day of a chart.
#[derive(Debug, Clone)]
pub(crate) struct ChartDay {
    /// The date, as `2026-11-22`.
    pub(crate) day: String,
    /// The calls that succeeded.
    pub(crate) ok: i64,
    /// The calls that failed.
    pub(crate) errors: i64,
    /// What calls and exports cost.
    pub(crate) credits: i64,
    /// Whether the day is not over.
    pub(crate) is_running: bool,
}

/// A rectangle of a plot.
pub(crate) struct ChartBar {
    /// What it says when it is pointed at.
    pub(crate) title: String,
    /// The left edge and width of the whole day.
    pub(crate) day_x: String,
    pub(crate) day_width: String,
    /// The left edge and width of the bar.
    pub(crate) x: String,
    pub(crate) width: String,
    /// The top and height of what succeeded.
    pub(crate) y: String,
    pub(crate) height: String,
    /// The top and height of what failed; none without failures.
    pub(crate) errors: Option<(String, String)>,
    /// Whether the day is not over.
    pub(crate) is_running: bool,
}

/// The axes of a plot.
pub(crate) struct ChartAxes {
    /// The values of the lines, from the top down; the last is zero.
    pub(crate) values: Vec<String>,
    /// The heights of the lines above zero.
    pub(crate) lines: Vec<String>,
    /// Some of the days, from the first to the last.
    pub(crate) days: Vec<String>,
}

/// Calls per day: a bar for each day, with failures on top.
pub(crate) struct CallChart {
    pub(crate) bars: Vec<ChartBar>,
    pub(crate) axes: ChartAxes,
    /// What the chart shows.
    pub(crate) title: String,
    /// The finding, in a sentence.
    pub(crate) summary: String,
}

/// Credits per day: a line over an area.
pub(crate) struct CreditChart {
    /// The corners of the line.
    pub(crate) line: String,
    /// The corners of the area below it.
    pub(crate) area: String,
    pub(crate) axes: ChartAxes,
    pub(crate) title: String,
}

impl ChartDay {
    pub(crate) const fn calls(&self) -> i64 {
        self.ok.saturating_add(self.errors)
    }

    /// What the day's bar says.
    fn title(&self) -> String {
        format!(
            "{}{}: {}, {}, {}",
            format::short_day(&self.day),
            if self.is_running { " (so far)" } else { "" },
            format::counted(self.calls(), "call"),
            format::counted(self.errors, "error"),
            format::credits(self.credits)
        )
    }
}

impl CallChart {
    /// The chart of these days, the oldest first.
    pub(crate) fn new(days: &[ChartDay]) -> Self {
        let highest = days.iter().map(ChartDay::calls).max().unwrap_or(0);
        let top = scale(highest);
        let step = WIDTH / as_float(days.len());
        let bars = days.iter().enumerate();
        let bars = bars.map(|(place, day)| bar(day, step, as_float(place) * step, top));
        Self {
            bars: bars.collect(),
            axes: ChartAxes::new(days, top),
            title: format!("Calls per day, {}", span(days)),
            summary: call_summary(days),
        }
    }
}

impl CreditChart {
    /// The chart of these days, the oldest first.
    pub(crate) fn new(days: &[ChartDay]) -> Self {
        let top = scale(days.iter().map(|day| day.credits).max().unwrap_or(0));
        let step = WIDTH / as_float(days.len().saturating_sub(1).max(1));
        let mut line = String::new();
        for (place, day) in days.iter().enumerate() {
            let y = HEIGHT - height_of(day.credits, top);
            let _ = write!(line, "{:.1},{y:.1} ", as_float(place) * step);
        }
        let line = line.trim_end().to_owned();
        let spent: i64 = days.iter().map(|day| day.credits).sum();
        Self {
            area: format!("0,{HEIGHT} {line} {WIDTH},{HEIGHT}"),
            line,
            axes: ChartAxes::new(days, top),
            title: format!(
                "Credits spent per day, {}: {} in all",
                span(days),
                format::number(spent)
            ),
        }
    }
}

impl ChartAxes {
    fn new(days: &[ChartDay], top: i64) -> Self {
        let values = [top, top / 3 * 2, top / 3, 0].map(short).to_vec();
        let lines = (0..3).map(|line| format!("{:.1}", HEIGHT / 3.0 * f64::from(line) + 0.5));
        Self { values, lines: lines.collect(), days: some_days(days) }
    }
}

fn bar(day: &ChartDay, step: f64, x: f64, top: i64) -> ChartBar {
    let inset = step * (1.0 - BAR_SHARE) / 2.0;
    let (good, bad) = (height_of(day.ok, top), height_of(day.errors, top));
    // A single failure among thousands must be seen, too.
    let bad = if day.errors > 0 { bad.max(1.2) } else { 0.0 };
    let gap = if day.errors > 0 && day.ok > 0 { GAP } else { 0.0 };
    let errors = (day.errors > 0).then_some((HEIGHT - good - gap - bad, bad));
    ChartBar {
        title: day.title(),
        day_x: format!("{x:.1}"),
        day_width: format!("{step:.1}"),
        x: format!("{:.1}", x + inset),
        width: format!("{:.1}", step * BAR_SHARE),
        y: format!("{:.1}", HEIGHT - good),
        height: format!("{good:.1}"),
        errors: errors.map(|(y, height)| (format!("{:.1}", y.max(0.0)), format!("{height:.1}"))),
        is_running: day.is_running,
    }
}

/// The top of a scale with three equal parts: 3 × the smallest of 1, 2, 5 × 10ⁿ that holds the
/// highest value, so that every line has a whole number.
fn scale(highest: i64) -> i64 {
    let mut unit = 1_i64;
    loop {
        for part in [1, 2, 5] {
            let top = unit.saturating_mul(part).saturating_mul(3);
            if top >= highest || top == i64::MAX {
                return top;
            }
        }
        unit = unit.saturating_mul(10);
    }
}

/// A value of a scale in few letters: `1k`, `200`, `1.5M`.
fn short(value: i64) -> String {
    match value {
        1_000_000.. if value % 1_000_000 == 0 => format!("{}M", value / 1_000_000),
        1_000..1_000_000 if value % 1_000 == 0 => format!("{}k", value / 1_000),
        _ => format::number(value),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a pixel is far coarser")]
fn height_of(value: i64, top: i64) -> f64 {
    value as f64 / top.max(1) as f64 * HEIGHT
}

#[expect(clippy::cast_precision_loss, reason = "there are at most a few hundred days")]
fn as_float(count: usize) -> f64 {
    count as f64
}

/// The labels below a plot: evenly spread, with the first and the last day.
fn some_days(days: &[ChartDay]) -> Vec<String> {
    let last = days.len().saturating_sub(1);
    let most = last.clamp(1, LABELS_MAX - 1);
    let even = (2..=most).rev().find(|labels| last.is_multiple_of(*labels));
    let labels = even.unwrap_or(most);
    let places = (0..=labels).map(|label| label * last / labels);
    let found = places.filter_map(|place| days.get(place));
    found.map(|day| format::short_day(&day.day)).collect()
}

/// `24 Oct to 22 Nov`.
fn span(days: &[ChartDay]) -> String {
    let name = |day: Option<&ChartDay>| day.map(|day| format::short_day(&day.day));
    let (first, last) = (name(days.first()), name(days.last()));
    format!("{} to {}", first.unwrap_or_default(), last.unwrap_or_default())
}

/// What the chart of calls shows, in a sentence.
fn call_summary(days: &[ChartDay]) -> String {
    let calls = || days.iter().map(ChartDay::calls);
    let (low, high) = (calls().min().unwrap_or(0), calls().max().unwrap_or(0));
    let range = if low == high {
        format!("{} a day", format::counted(high, "call"))
    } else {
        format!("Between {} and {} a day", format::number(low), format::counted(high, "call"))
    };
    let worst = days.iter().filter(|day| day.errors > 0).max_by_key(|day| day.errors);
    let errors = worst.map_or_else(
        || "no errors".to_owned(),
        |day| {
            format!(
                "errors peaked at {} on {}",
                format::number(day.errors),
                format::short_day(&day.day)
            )
        },
    );
    format!("{range}; {errors}. The table has every value.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(number: i64, ok: i64, errors: i64) -> ChartDay {
        let day = format!("2026-11-{number:02}");
        ChartDay { day, ok, errors, credits: ok * 2, is_running: number == 3 }
    }

    #[test]
    fn the_smallest_scale_holds_the_highest_value_on_whole_lines() {
        for (highest, top) in
            [(0, 3), (3, 3), (4, 6), (7, 15), (16, 30), (31, 60), (61, 150), (2_386, 3_000)]
        {
            assert_eq!(scale(highest), top, "{highest}");
        }
        assert!(scale(i64::MAX) > i64::MAX / 2);
        assert_eq!([3_000, 150, 6_000_000].map(short), ["3k", "150", "6M"]);
    }

    #[test]
    fn bars_stand_on_the_ground_and_failures_on_top_of_them() {
        let chart = CallChart::new(&[day(1, 20, 10), day(2, 0, 0), day(3, 30, 0)]);

        let [first, second, third] = &chart.bars[..] else { panic!("three bars") };
        assert_eq!((first.y.as_str(), first.height.as_str()), ("60.0", "120.0"));
        assert_eq!(first.errors.clone().unwrap(), ("0.0".to_owned(), "60.0".to_owned()));
        assert_eq!((second.height.as_str(), second.errors.is_none()), ("0.0", true));
        assert!(third.is_running && third.title.contains("3 Nov (so far): 30 calls, 0 errors"));
        assert_eq!(chart.axes.values, ["30", "20", "10", "0"]);
        assert_eq!(chart.axes.days, ["1 Nov", "2 Nov", "3 Nov"]);
        assert_eq!(
            chart.summary,
            "Between 0 and 30 calls a day; errors peaked at 10 on 1 Nov. The table has every value."
        );
    }

    #[test]
    fn a_chart_of_one_or_of_no_day_can_be_drawn() {
        for days in [vec![], vec![day(1, 5, 0)]] {
            let credits = CreditChart::new(&days);
            assert!(credits.area.starts_with("0,180"), "{}", credits.area);
            assert!(!credits.line.contains("NaN"), "{}", credits.line);
            assert_eq!(CallChart::new(&days).bars.len(), days.len());
        }
    }

    #[test]
    fn labels_below_a_plot_are_few_and_include_both_ends() {
        let days: Vec<_> = (1..=30).map(|number| day(number, 1, 0)).collect();

        let labels = some_days(&days);

        assert_eq!(labels.len(), LABELS_MAX);
        assert_eq!(labels.first().map(String::as_str), Some("1 Nov"));
        assert_eq!(labels.last().map(String::as_str), Some("30 Nov"));
        assert_eq!(some_days(days.get(..7).unwrap()), ["1 Nov", "3 Nov", "5 Nov", "7 Nov"]);
    }
}
