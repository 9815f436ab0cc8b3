//! The result of the file checks, as it is stored with the attempt.

use serde_json::{Value, json};
use tidemill_domain::render::Probe;
use tidemill_domain::render::check::{Decoded, Finding, Verdict};

pub(super) fn of(probe: &Probe, verdict: &Verdict) -> Value {
    let videos: Vec<Value> = probe
        .videos
        .iter()
        .map(|video| {
            json!({
                "codec": video.codec,
                "pixel_format": video.pixel_format,
                "width": video.width,
                "height": video.height,
                "rate": video.average_rate.map(|rate| rate.to_string()),
                "frames": video.frames,
                "packets": video.packets,
                "seconds": video.seconds,
            })
        })
        .collect();
    let audios: Vec<Value> = probe
        .audios
        .iter()
        .map(|sound| json!({ "sample_rate": sound.sample_rate, "seconds": sound.seconds }))
        .collect();
    let decoded = match &probe.decoded {
        None => json!("not tried"),
        Some(Decoded::Whole) => json!("whole"),
        Some(Decoded::Broken(line)) => json!({ "broken": line }),
    };
    json!({
        "is_good": verdict.is_good(),
        "failures": findings(&verdict.failures),
        "warnings": findings(&verdict.warnings),
        "bytes": probe.bytes,
        "format": probe.format,
        "videos": videos,
        "audios": audios,
        "decoded": decoded,
        "shares": {
            "black": probe.shares.black,
            "frozen": probe.shares.frozen,
            "silent": probe.shares.silent,
        },
    })
}

fn findings(findings: &[Finding]) -> Vec<Value> {
    let finding = |finding: &Finding| json!({ "check": finding.check.as_str(), "expected": finding.expected, "actual": finding.actual });
    findings.iter().map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_domain::render::check::Check;

    #[test]
    fn a_report_names_each_failure_with_what_was_expected_and_found() {
        let finding =
            Finding { check: Check::Resolution, expected: "1920x1080".into(), actual: "1280x720".into() };
        let verdict = Verdict { failures: vec![finding], warnings: Vec::new() };

        let report = of(&Probe::default(), &verdict);

        assert_eq!(report["is_good"], json!(false));
        let failure = json!({ "check": "resolution", "expected": "1920x1080", "actual": "1280x720" });
        assert_eq!(report["failures"], json!([failure]));
        assert_eq!(report["decoded"], json!("not tried"));
    }
}
