//! The log layout that render farms read: `[time] LEVEL | Worker#1 | Job#1 | text`.

use std::fmt::{self, Write as _};
use tidemill_domain::time::{Clock, Timestamp};
use tidemill_engine::SystemClock;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

pub(super) struct Columns;

impl<S, N> FormatEvent<S, N> for Columns
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = Line::default();
        event.record(&mut line);
        writeln!(writer, "{}", line.text(SystemClock::new().now(), *event.metadata().level()))
    }
}

#[derive(Debug, Default)]
struct Line {
    worker: Option<String>,
    job: Option<String>,
    message: String,
    others: String,
}

impl Line {
    fn text(&self, now: Timestamp, level: Level) -> String {
        let number = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        let worker = self.worker.clone().unwrap_or_else(|| std::process::id().to_string());
        let text = format!("{}{}", self.message, self.others);
        // One event is one line, whatever it says.
        let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        format!("[{now}] {level:<5} | Worker#{worker} | Job#{} | {text}", number(&self.job))
    }

    fn note(&mut self, field: &Field, value: String) {
        match field.name() {
            "message" => self.message = value,
            "worker.id" => self.worker = Some(value),
            "job.id" => self.job = Some(value),
            name => {
                let _infallible = write!(self.others, " {name}={value}");
            }
        }
    }
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.note(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.note(field, format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_columns_and_stays_one_line() {
        let line = Line {
            worker: Some("3".into()),
            job: Some("17".into()),
            message: "render\nfailed".into(),
            others: " error=x".into(),
        };

        let text = line.text(Timestamp::EPOCH, Level::WARN);

        assert_eq!(text, "[1970-01-01T00:00:00.000000Z] WARN  | Worker#3 | Job#17 | render failed error=x");
        assert!(Line::default().text(Timestamp::EPOCH, Level::INFO).contains("| Job#- |"));
    }
}
