//! The results of the checks of a file: failures, warnings, and what passed.

use crate::dashboard::part::{Health, list_table, panel, plural, state as state_word};
use maud::{Markup, html};
use serde_json::Value;
use tidemill_store::render::AttemptRecord;

const COLUMNS: &[&str] = &["Result", "Check", "Expected", "Actual"];

#[derive(Clone, PartialEq, Eq, Debug)]
struct Line {
    health: Health,
    word: &'static str,
    check: String,
    expected: String,
    found: String,
}

/// The checks of the last file; nothing when no file was checked.
pub(super) fn panel_of(attempts: &[AttemptRecord]) -> Markup {
    let last =
        attempts.iter().rev().find_map(|attempt| attempt.report.as_ref().map(|report| (attempt, report)));
    let Some((attempt, report)) = last else { return html! {} };
    let rows = lines(report).into_iter().map(|line| {
        html! {
            tr {
                td { (state_word(line.health, line.word)) }
                th scope="row" { (line.check) }
                td.long { (line.expected) }
                td.long { (line.found) }
            }
        }
    });
    let table = list_table("Checks of the file", COLUMNS, rows, &html! { "No checks." });
    let verdict = match report.get("is_good").and_then(Value::as_bool) {
        Some(true) => state_word(Health::Ok, "the file is good"),
        Some(false) => state_word(Health::Bad, "the file failed"),
        None => state_word(Health::Idle, "unknown"),
    };
    let aside = html! { (verdict) span.soft { "attempt " (attempt.epoch) } };
    panel("report", "Checks", &aside, &table)
}

fn lines(report: &Value) -> Vec<Line> {
    let bad = findings(report, "failures", Health::Bad, "failed");
    let odd = findings(report, "warnings", Health::Warn, "warning");
    let is_named = |check: &str| bad.iter().chain(&odd).any(|line| line.check == check);
    // With several video streams, the checks do not know which one to judge.
    let is_judged = !is_named("video streams");
    let (health, word) = if is_judged { (Health::Ok, "passed") } else { (Health::Idle, "not checked") };
    let passed = facts(report).into_iter().filter(|(check, _)| !is_named(check));
    let line = |(check, found): (&str, String)| Line {
        health,
        word,
        check: check.to_owned(),
        expected: String::new(),
        found,
    };
    let passed: Vec<Line> = passed.map(line).collect();
    [bad, odd, passed].concat()
}

fn findings(report: &Value, kind: &str, health: Health, word: &'static str) -> Vec<Line> {
    let all = report.get(kind).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let text = |finding: &Value, key: &str| finding.get(key).map(shown).unwrap_or_default();
    let line = |finding: &Value| Line {
        health,
        word,
        check: text(finding, "check"),
        expected: text(finding, "expected"),
        found: text(finding, "actual"),
    };
    all.iter().map(line).collect()
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The facts about the file, under the names of their checks.
fn facts(report: &Value) -> Vec<(&'static str, String)> {
    let given = |value: Option<&Value>| value.filter(|value| !value.is_null()).map(shown);
    let video = report.pointer("/videos/0");
    let of_video = |key: &str| given(video.and_then(|video| video.get(key)));
    let resolution =
        of_video("width").zip(of_video("height")).map(|(width, height)| format!("{width}x{height}"));
    let sound = report.get("audios").and_then(Value::as_array).map(|streams| match streams.len() {
        0 => "none".to_owned(),
        count => plural(count, "stream", "streams"),
    });
    let decoded = report.get("decoded").map(|decoded| {
        given(decoded.get("broken")).map_or_else(|| shown(decoded), |line| format!("broken: {line}"))
    });
    let share = |key: &str| {
        let share = report.pointer(&format!("/shares/{key}")).and_then(Value::as_f64);
        share.map(|share| format!("{:.0} %", share * 100.0))
    };
    [
        ("size", given(report.get("bytes")).map(|bytes| format!("{bytes} bytes"))),
        ("container", given(report.get("format"))),
        ("codec", of_video("codec")),
        ("pixel format", of_video("pixel_format")),
        ("resolution", resolution),
        ("frames per second", of_video("rate")),
        ("duration", of_video("seconds").map(|seconds| format!("{seconds} s"))),
        ("frames", of_video("frames")),
        ("packets", of_video("packets")),
        ("sound", sound),
        ("decoding", decoded.filter(|decoded| decoded != "not tried")),
        ("black", share("black")),
        ("standing still", share("frozen")),
        ("silence", share("silent")),
    ]
    .into_iter()
    .filter_map(|(check, found)| found.map(|found| (check, found)))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_wrong_comes_first_and_what_passed_is_told_with_what_was_found() {
        let report = json!({
            "is_good": false,
            "failures": [{ "check": "packets", "expected": "50", "actual": "37" }],
            "warnings": [{ "check": "black", "expected": "a part of it", "actual": "99 %" }],
            "bytes": 9000,
            "videos": [{ "codec": "h264", "width": 640, "height": 360, "packets": 37, "pixel_format": null }],
            "decoded": "not tried",
            "shares": { "black": 0.99, "frozen": 0.1 },
        });

        let told: Vec<String> = lines(&report)
            .iter()
            .map(|line| format!("{} {} [{}] {}", line.word, line.check, line.expected, line.found))
            .collect();

        assert_eq!(
            told,
            [
                "failed packets [50] 37",
                "warning black [a part of it] 99 %",
                "passed size [] 9000 bytes",
                "passed codec [] h264",
                "passed resolution [] 640x360",
                "passed standing still [] 10 %",
            ]
        );
    }

    #[test]
    fn a_report_of_another_shape_is_no_problem() {
        for report in [json!(null), json!([]), json!({ "failures": 3, "videos": {} }), json!("x")] {
            assert_eq!(lines(&report), [], "{report}");
        }
        let unclear = json!({ "failures": [{ "check": "video streams", "expected": "one", "actual": "2" }], "format": "mp4" });
        assert_eq!(lines(&unclear)[1].word, "not checked");
    }
}
