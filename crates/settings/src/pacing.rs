//! `[platforms.*.pacing]`: how many requests an account may send to its platform.

use super::problem::ConfigProblem;

/// The longest time that a call may wait for its turn, in milliseconds.
const WAIT_MS_MAX: u32 = 30_000;
/// The slowest pace: one request in 1,000 seconds.
const PER_SECOND_MIN: f64 = 0.001;
const PER_SECOND_MAX: f64 = 10_000.0;

/// The pace of each account of a platform.
#[derive(Debug, Clone, Copy, PartialEq, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct PacingSection {
    /// For GET.
    pub reads: PaceSection,
    /// For all other methods.
    pub writes: PaceSection,
    /// For routes that the catalogue marks as sensitive. Not paced: they count as reads and writes.
    pub sensitive: PaceSection,
    /// How long a call may wait for its turn, in milliseconds.
    pub max_wait_ms: u32,
    /// Whether the nodes that are alive divide the pace among them.
    pub divide_by_nodes: bool,
}

/// The pace of one class of requests.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct PaceSection {
    /// Requests per second on average; 0: not paced.
    pub per_second: f64,
    /// How many may be sent together after a pause.
    pub burst: u32,
}

impl Default for PacingSection {
    fn default() -> Self {
        Self {
            reads: PaceSection::default(),
            writes: PaceSection::default(),
            sensitive: PaceSection::default(),
            max_wait_ms: 0,
            divide_by_nodes: true,
        }
    }
}

impl PacingSection {
    pub(super) fn check(&self, key: &str, problems: &mut Vec<ConfigProblem>) {
        let paces = [("reads", self.reads), ("writes", self.writes), ("sensitive", self.sensitive)];
        for (name, pace) in paces {
            pace.check(&format!("{key}.{name}"), problems);
        }
        if self.max_wait_ms > WAIT_MS_MAX {
            problems.push(ConfigProblem::new(
                format!("{key}.max_wait_ms"),
                format!("must be at most {WAIT_MS_MAX}"),
            ));
        }
    }
}

impl PaceSection {
    /// Microseconds from one request to the next, on average; `None` if they are not paced.
    #[expect(clippy::cast_possible_truncation, reason = "the rate is checked to be in bounds")]
    pub fn unit_micros(self) -> Option<i64> {
        let is_paced = (PER_SECOND_MIN..=PER_SECOND_MAX).contains(&self.per_second);
        is_paced.then(|| (1_000_000.0 / self.per_second).round() as i64)
    }

    fn check(self, key: &str, problems: &mut Vec<ConfigProblem>) {
        if self.per_second != 0.0 && self.unit_micros().is_none() {
            let message = "must be 0, or 0.001 to 10,000";
            problems.push(ConfigProblem::new(format!("{key}.per_second"), message));
        }
        if self.per_second != 0.0 && !(1..=100_000).contains(&self.burst) {
            let message = "must be 1 to 100,000 where per_second is not 0";
            problems.push(ConfigProblem::new(format!("{key}.burst"), message));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;
    use domain::platform::Platform;

    fn keys_of(pacing: &str) -> Vec<String> {
        let text = format!(
            "[platforms.platform_beta]\nbase_url = \"http://127.0.0.1:1\"\nsigning.key = \"k\"\npacing = {pacing}"
        );
        let problems = Config::from_toml(&text).unwrap().problems();
        let of_pacing = problems.into_iter().filter(|problem| problem.key.contains("pacing"));
        of_pacing.map(|problem| problem.key.rsplit_once("pacing.").unwrap().1.to_owned()).collect()
    }

    #[test]
    fn a_pace_is_a_rate_and_a_burst() {
        assert_eq!(
            keys_of("{ reads = { per_second = 0.5, burst = 1 }, max_wait_ms = 30000 }"),
            [""; 0]
        );
        assert_eq!(keys_of("{ reads = { per_second = 5 } }"), ["reads.burst"]);
        assert_eq!(keys_of("{ writes = { per_second = -1, burst = 1 } }"), ["writes.per_second"]);
        assert_eq!(
            keys_of("{ sensitive = { per_second = 0.0001, burst = 1 } }"),
            ["sensitive.per_second"]
        );
        assert_eq!(keys_of("{ max_wait_ms = 30001 }"), ["max_wait_ms"]);
    }

    #[test]
    fn platforms_are_not_paced_by_default() {
        let default = Config::from_toml("").unwrap();
        for (platform, section) in default.platforms.iter() {
            assert_eq!(section.pacing.reads.unit_micros(), None, "{platform}");
        }
        let text = "[platforms.platform_beta.pacing]\nreads = { per_second = 4, burst = 2 }";
        let config = Config::from_toml(text).unwrap();
        let beta = config.platforms.get(Platform::BETA).unwrap();
        assert_eq!(beta.pacing.reads.unit_micros(), Some(250_000));
        assert_eq!(beta.pacing.writes.unit_micros(), None);
    }
}
