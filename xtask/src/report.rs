//! What the tests reported, read from the output of `cargo test`. Pure.
//!
//! Each test program writes `running N tests`, a line for each test, and at last `test result: …`. A program
//! that dies leaves out the end: then the tests that never reported count as failed.

/// What one test program reported.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Section {
    /// Which program it was, where that is known.
    pub(crate) program: Option<String>,
    /// Tests that passed.
    pub(crate) passed: u64,
    /// Tests that failed or never reported.
    pub(crate) failed: u64,
    /// Tests that were ignored.
    pub(crate) ignored: u64,
    /// The names of the failed tests.
    pub(crate) failures: Vec<String>,
}

/// Reads the output and the messages of `cargo test`.
pub(crate) fn parse(output: &str, messages: &str) -> Vec<Section> {
    let mut sections = Vec::new();
    let mut open: Option<Open> = None;
    for line in output.lines() {
        if let Some(tests) = announced(line) {
            // A program that did not end by itself is followed by the next one.
            sections.extend(open.take().map(Open::cut_off));
            open = Some(Open { tests, ..Open::default() });
        } else if let Some(section) = &mut open {
            if let Some(counts) = counts(line).filter(|counts| counts.iter().sum::<u64>() == section.tests) {
                sections.extend(open.take().map(|section| section.finished(counts)));
            } else {
                section.take(line);
            }
        }
    }
    sections.extend(open.map(Open::cut_off));
    // Cargo runs all programs first and the doc tests of all packages last, some in several sections.
    let programs: Vec<String> = messages.lines().filter_map(program).collect();
    if programs.len() <= sections.len() {
        for (section, program) in sections.iter_mut().zip(programs) {
            section.program = Some(program);
        }
    }
    sections
}

/// A section whose end has not been seen yet.
#[derive(Default)]
struct Open {
    tests: u64,
    passed: u64,
    ignored: u64,
    /// From the lines of the single tests.
    failed: Vec<String>,
    /// From the list at the end, which is complete even where a test's output broke its line.
    listed: Option<Vec<String>>,
}

impl Open {
    fn take(&mut self, line: &str) {
        if line == "failures:" {
            // Comes twice, first with the outputs; the list of names is the last one.
            self.listed = Some(Vec::new());
        } else if let Some((listed, name)) = self.listed.as_mut().zip(line.strip_prefix("    ")) {
            listed.push(name.to_owned());
        } else if let Some((name, result)) =
            line.strip_prefix("test ").and_then(|line| line.rsplit_once(" ... "))
        {
            match result {
                "ok" => self.passed += 1,
                "FAILED" => self.failed.push(name.to_owned()),
                result if result.starts_with("ignored") => self.ignored += 1,
                _ => {}
            }
        }
    }

    fn finished(self, [passed, failed, ignored, _measured]: [u64; 4]) -> Section {
        let failures = if failed == 0 { Vec::new() } else { self.listed.unwrap_or(self.failed) };
        Section { program: None, passed, failed, ignored, failures }
    }

    fn cut_off(self) -> Section {
        let failed = self.tests.saturating_sub(self.passed).saturating_sub(self.ignored).max(1);
        let silent = failed.saturating_sub(self.failed.len() as u64);
        let mut failures = self.failed;
        if silent > 0 {
            failures.push(format!("({silent} without a result: the program ended early)"));
        }
        Section { program: None, passed: self.passed, failed, ignored: self.ignored, failures }
    }
}

/// The number of tests in `running 3 tests`.
fn announced(line: &str) -> Option<u64> {
    let rest = line.strip_prefix("running ")?;
    rest.strip_suffix(" tests").or_else(|| rest.strip_suffix(" test"))?.parse().ok()
}

/// Passed, failed, ignored and measured in `test result: ok. 3 passed; 0 failed; …`.
fn counts(line: &str) -> Option<[u64; 4]> {
    let (_verdict, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let mut parts = counts.split("; ");
    let mut number = |word| -> Option<u64> { parts.next()?.strip_suffix(word)?.trim_end().parse().ok() };
    Some([number("passed")?, number("failed")?, number("ignored")?, number("measured")?])
}

/// The program in `Running tests/testkit.rs (target/debug/deps/testkit-2271c16fc46501ae)`.
fn program(line: &str) -> Option<String> {
    let (source, path) = line.trim_start().strip_prefix("Running ")?.strip_suffix(')')?.rsplit_once(" (")?;
    let file = path.rsplit('/').next()?;
    let name = file.rsplit_once('-').map_or(file, |(name, _hash)| name);
    Some(format!("{name} {}", source.trim_start_matches("unittests ")))
}

#[cfg(test)]
mod tests;
