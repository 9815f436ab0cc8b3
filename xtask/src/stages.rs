//! How long each stage of a command took. The only reader of the clock here.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// The stages so far.
#[derive(Debug, Default)]
pub(crate) struct Stages {
    done: Vec<(&'static str, Duration)>,
}

impl Stages {
    /// Runs a stage, announces it and its time, and remembers the time, however it ends.
    pub(crate) fn run<T>(
        &mut self,
        name: &'static str,
        stage: impl FnOnce() -> Result<T, String>,
    ) -> Result<T, String> {
        println!("==> {name}");
        let start = now();
        let result = stage();
        let time = now().duration_since(start);
        self.done.push((name, time));
        println!(
            "==> {name}: {} {:.1} s",
            if result.is_ok() { "done in" } else { "failed after" },
            time.as_secs_f64()
        );
        result
    }

    /// The times as a table.
    pub(crate) fn table(&self) -> String {
        let mut text = format!("{:<10} {:>9}\n", "stage", "time");
        for (name, time) in &self.done {
            let _infallible = writeln!(text, "{name:<10} {:>7.1} s", time.as_secs_f64());
        }
        let total: Duration = self.done.iter().map(|(_, time)| time).sum();
        let _infallible = writeln!(text, "{:<10} {:>7.1} s", "total", total.as_secs_f64());
        text
    }
}

/// The instant, for those who measure.
#[expect(clippy::disallowed_methods, reason = "measures how long real commands take")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_stage_is_in_the_table_too() {
        let done = vec![("build", Duration::from_millis(1_250)), ("tests", Duration::from_secs(120))];
        let mut stages = Stages { done };

        let result = stages.run("stop", || Err::<(), _>("no".to_owned()));

        assert_eq!(result, Err("no".to_owned()));
        let table = stages.table();
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines[..3], ["stage           time", "build          1.2 s", "tests        120.0 s"]);
        assert!(lines[3].starts_with("stop"), "{table}");
        assert!(lines[4].starts_with("total        121."), "{table}");
    }
}
