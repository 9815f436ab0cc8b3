//! The metrics in the code are those of the reference page, and they follow the rules of Prometheus.

use crate::workspace;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

const PAGE: &str = "docs/reference/metrics.md";
const KINDS: [&str; 3] = ["counter", "gauge", "histogram"];
/// What Prometheus itself appends to the name of a histogram or summary.
const RESERVED_ENDINGS: [&str; 4] = ["_bucket", "_count", "_created", "_sum"];
/// Units other than the base ones, seconds and bytes.
const OTHER_UNITS: [&str; 8] =
    ["_ms", "_millis", "_milliseconds", "_us", "_micros", "_minutes", "_hours", "_kb"];

/// A metric as the code or the page has it; equal when all of it is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Metric {
    name: String,
    kind: String,
    labels: BTreeSet<String>,
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {:?}", self.kind, self.name, self.labels)
    }
}

/// What was found, and what is wrong with it.
#[derive(Default, Debug)]
struct MetricNames {
    metrics: BTreeSet<Metric>,
    problems: Vec<String>,
}

/// One use of a macro: `counter!(NAME, "kind" => kind.to_owned())`.
struct Call {
    name: String,
    arguments: Vec<String>,
}

fn sources() -> Vec<(PathBuf, String)> {
    let crates = fs::read_dir(workspace().join("crates")).unwrap();
    let mut folders: Vec<PathBuf> = crates.map(|entry| entry.unwrap().path().join("src")).collect();
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    found
}

/// The text without its comments, without the macro that declares metrics, and without the tests at its end.
fn product_code(text: &str) -> String {
    let code = text.split("#[cfg(test)]").next().unwrap();
    let is_code = |line: &&str| !line.trim_start().starts_with("//") && !line.contains("$name");
    let lines = code.lines().filter(is_code).map(|line| declared(line).unwrap_or_else(|| line.to_owned()));
    lines.collect::<Vec<_>>().join("\n")
}

/// A line of `metric_table!`, such as `counter name(label) = "tidemill_…", "About.";`, as the code that it becomes.
fn declared(line: &str) -> Option<String> {
    let (kind, rest) = line.trim().split_once(' ')?;
    let (head, value) = rest.split_once(" = ").filter(|_| KINDS.contains(&kind))?;
    let (name, labels) = head.strip_suffix(')')?.split_once('(')?;
    let (text, about) = value.split_once(", ")?;
    let labels = labels.split(", ").filter(|label| !label.is_empty());
    let labels: String = labels.map(|label| format!(", \"{label}\" => {label}.to_owned()")).collect();
    let described = format!("describe_{kind}!({name}, {});", about.trim_end_matches(';'));
    Some(format!("const {name}: &str = {text};\n{described}\n{kind}!({name}{labels});"))
}

/// The arguments of functions of metrics, such as `metrics::name(argument)`, that are ids.
fn ids_as_labels(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, start) in code.match_indices("metrics::") {
        let Some((name, inside)) = code[at + start.len()..].split_once('(') else { continue };
        let (_, end) = commas_and_end(inside);
        if name.chars().all(is_word) && inside[..end].split(|c| !is_word(c)).any(is_id) {
            found.push(format!(
                "metrics::{name}({}): a label is an id; it would grow without bound",
                &inside[..end]
            ));
        }
    }
    found
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Where the bracket that is open at the start of `text` is closed, and the commas of its own level before that.
/// Brackets and commas inside strings do not count.
fn commas_and_end(text: &str) -> (Vec<usize>, usize) {
    let (mut depth, mut in_string, mut escaped, mut commas) = (0_u32, false, false, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            _ if in_string => {}
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 0 => return (commas, at),
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => commas.push(at),
            _ => {}
        }
    }
    (commas, text.len())
}

/// Every use of a macro whose name is, or ends in, one of the kinds.
fn calls(code: &str) -> Vec<Call> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("!(") {
        let name: String = code[..at].chars().rev().take_while(|c| is_word(*c)).collect();
        let name: String = name.chars().rev().collect();
        if !KINDS.contains(&name.strip_prefix("describe_").unwrap_or(&name)) {
            continue;
        }
        let inside = &code[at + 2..];
        let (commas, end) = commas_and_end(inside);
        let starts = std::iter::once(0).chain(commas.iter().map(|comma| comma + 1));
        let ends = commas.iter().copied().chain(std::iter::once(end));
        let arguments = starts.zip(ends).map(|(start, end)| inside[start..end].trim().to_owned());
        found.push(Call { name, arguments: arguments.filter(|argument| !argument.is_empty()).collect() });
    }
    found
}

/// The text of a string literal, if `text` is one.
fn literal(text: &str) -> Option<&str> {
    text.strip_prefix('"')?.strip_suffix('"').filter(|inside| !inside.contains('"'))
}

/// `const NAME: &str = "tidemill_…";`: constants and what they stand for.
fn constants(code: &str) -> BTreeMap<&str, &str> {
    let declared = code.split("const ").skip(1).filter_map(|rest| rest.split(';').next());
    declared
        .filter_map(|rest| {
            let (left, right) = rest.split_once('=')?;
            Some((left.split(':').next()?.trim(), literal(right.trim())?))
        })
        .collect()
}

/// The literals of a text that are names of ours.
fn names(code: &str) -> BTreeSet<&str> {
    let pieces = code.split('"').skip(1).step_by(2);
    pieces.filter(|piece| piece.starts_with("tidemill") && piece.chars().all(is_word)).collect()
}

/// The metrics of a file that is named after them.
fn of_code(code: &str) -> MetricNames {
    let (constants, mut found, mut described) = (constants(code), MetricNames::default(), BTreeSet::new());
    for call in calls(code) {
        let Some(name) =
            call.arguments.first().and_then(|first| literal(first).or(constants.get(&**first).copied()))
        else {
            found
                .problems
                .push(format!("{}!({:?}): the name is not a literal or constant", call.name, call.arguments));
            continue;
        };
        if let Some(kind) = call.name.strip_prefix("describe_") {
            described.insert((kind.to_owned(), name.to_owned()));
            continue;
        }
        let mut labels = BTreeSet::new();
        for argument in &call.arguments[1..] {
            let Some((label, value)) = argument.split_once("=>") else {
                found.problems.push(format!("{name}: {argument:?} is not written as \"label\" => value"));
                continue;
            };
            let label = literal(label.trim()).unwrap_or(label.trim());
            let words = value.split(|c| !is_word(c));
            if std::iter::once(label).chain(words).any(is_id) {
                found
                    .problems
                    .push(format!("{name}: the label {label:?} is an id; it would grow without bound"));
            }
            labels.insert(label.to_owned());
        }
        found.metrics.insert(Metric { name: name.to_owned(), kind: call.name, labels });
    }
    for name in names(code) {
        if !found.metrics.iter().any(|metric| metric.name == name) {
            found.problems.push(format!("{name} is named but never recorded"));
        }
    }
    for metric in &found.metrics {
        if !described.contains(&(metric.kind.clone(), metric.name.clone())) {
            found.problems.push(format!("{} is not described to the recorder", metric.name));
        }
    }
    found
}

fn is_id(word: &str) -> bool {
    matches!(word, "id" | "pid" | "uid" | "uuid") || word.ends_with("_id") || word.ends_with("_uuid")
}

/// The metrics of the page: the rows of its tables.
fn of_page(page: &str) -> MetricNames {
    let mut found = MetricNames::default();
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, kind, labels, meaning] = cells[..] else {
            found.problems.push(format!("{row:?} does not have four cells"));
            continue;
        };
        let plain = |cell: &str| cell.trim_matches('`').to_owned();
        let labels =
            labels.split(',').map(|label| plain(label.trim())).filter(|label| label != "none").collect();
        let metric = Metric { name: plain(name), kind: kind.to_owned(), labels };
        if meaning.is_empty() {
            found.problems.push(format!("{} has no meaning", metric.name));
        }
        if found.metrics.iter().any(|known| known.name == metric.name) {
            found.problems.push(format!("{} stands there twice", metric.name));
        }
        found.metrics.insert(metric);
    }
    found
}

/// What breaks the rules for names: <https://prometheus.io/docs/practices/naming/>.
fn against_the_rules(metric: &Metric) -> Vec<String> {
    let name = metric.name.as_str();
    let is_plain = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_lowercase())
            && text.chars().all(|c| is_word(c) && !c.is_ascii_uppercase())
            && !text.contains("__")
            && !text.ends_with('_')
    };
    let ends_in = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    let stem = name.strip_suffix("_total").unwrap_or(name);
    let rules = [
        (name.starts_with("tidemill_"), "does not begin with tidemill_"),
        (is_plain(name), "is not made of lower case words with single underscores"),
        (KINDS.contains(&metric.kind.as_str()), "is not a counter, gauge or histogram"),
        ((metric.kind == "counter") == (stem != name), "ends in _total if, and only if, it is a counter"),
        (!ends_in(&RESERVED_ENDINGS), "ends in what Prometheus appends by itself"),
        (!OTHER_UNITS.iter().any(|unit| stem.ends_with(unit)), "is not in a base unit: seconds or bytes"),
        (metric.kind != "histogram" || ends_in(&["_seconds", "_bytes"]), "is a histogram without its unit"),
        (metric.labels.iter().all(|label| is_plain(label)), "has a label that is not in lower case"),
        (!metric.labels.iter().any(|label| label == "le" || label == "quantile"), "has a reserved label"),
        (!metric.labels.iter().any(|label| is_id(label)), "has an id as a label"),
    ];
    rules.iter().filter(|(holds, _)| !holds).map(|(_, why)| format!("{metric}: {why}")).collect()
}

/// Everything that is wrong: in the files, on the page, and between the two.
fn problems(sources: &[(PathBuf, String)], page: &str) -> Vec<String> {
    let mut in_code = BTreeSet::new();
    let mut problems = Vec::new();
    for (path, text) in sources {
        let code = product_code(text);
        if path.file_name().is_some_and(|name| name == "metrics.rs") {
            let found = of_code(&code);
            in_code.extend(found.metrics);
            problems.extend(found.problems.iter().map(|problem| format!("{}: {problem}", path.display())));
        } else if !calls(&code).is_empty() {
            problems.push(format!("{} records metrics; that belongs into metrics.rs", path.display()));
        }
        problems.extend(ids_as_labels(&code).iter().map(|problem| format!("{}: {problem}", path.display())));
    }
    let on_page = of_page(page);
    problems.extend(on_page.problems);
    problems.extend(in_code.iter().chain(&on_page.metrics).flat_map(against_the_rules));
    problems
        .extend(in_code.difference(&on_page.metrics).map(|metric| format!("{metric} is not on the page")));
    problems
        .extend(on_page.metrics.difference(&in_code).map(|metric| format!("{metric} is not in the code")));
    problems
}

#[test]
fn the_page_of_metrics_lists_what_the_code_records() {
    let (sources, page) = (sources(), fs::read_to_string(workspace().join(PAGE)).unwrap());
    let recorded: usize = sources.iter().map(|(_, text)| calls(&product_code(text)).len()).sum();
    assert!(recorded >= 5, "only {recorded} uses of metrics were found");

    assert_eq!(problems(&sources, &page), Vec::<String>::new());
}

/// A file of metrics with one counter, and the page that belongs to it.
fn sound() -> (String, String) {
    let code = r#"
        const A: &str = "tidemill_tides_total";
        pub fn describe() { describe_counter!(A, "Tides, (all) of them."); }
        pub(crate) fn tide(kind: &str) { counter!(A, "kind" => kind.to_owned()).increment(1); }
    "#;
    (code.to_owned(), "| `tidemill_tides_total` | counter | `kind` | tides |\n".to_owned())
}

fn problems_of(code: &str, page: &str) -> Vec<String> {
    problems(&[(Path::new("x/src/metrics.rs").to_owned(), code.to_owned())], page)
}

#[test]
fn a_sound_file_and_its_page_pass() {
    let (code, page) = sound();

    assert_eq!(problems_of(&code, &page), Vec::<String>::new());
    let tests = "#[cfg(test)] mod tests { fn f() { counter!(\"whatever\"); } }";
    assert_eq!(problems_of(&format!("{code} // counter!(\"no\")\n {tests}"), &page), Vec::<String>::new());
}

#[test]
fn planted_faults_are_found() {
    let (code, page) = sound();
    let in_code = |from: &str, to: &str| (code.replace(from, to), page.clone());
    let on_page = |from: &str, to: &str| (code.clone(), page.replace(from, to));
    let in_both = |from: &str, to: &str| (code.replace(from, to), page.replace(from, to));
    let also_on_page = |row: &str| (code.clone(), format!("{page}{row}"));

    for (complaint, (code, page)) in [
        ("is not on the page", (code.clone(), String::new())),
        ("is not in the code", also_on_page("| `tidemill_ebbs_total` | counter | none | ebbs |")),
        ("is not on the page", on_page("`kind`", "none")),
        ("is not on the page", on_page("counter", "gauge")),
        ("has no meaning", on_page("| tides |", "| |")),
        ("stands there twice", also_on_page("| `tidemill_tides_total` | counter | none | ebbs |")),
        ("does not have four cells", also_on_page("| `tidemill_ebbs_total` | counter | none |")),
        ("does not begin with tidemill_", in_both("tidemill_tides", "mill_tides")),
        ("if, and only if, it is a counter", in_both("tides_total", "tides")),
        ("if, and only if, it is a counter", in_both("counter", "gauge")),
        ("is a histogram without its unit", in_both("counter", "histogram")),
        ("lower case words", in_both("tides_total", "Tides_total")),
        ("what Prometheus appends", in_both("tides_total", "tides_count")),
        ("base unit", in_both("tides_total", "tides_ms_total")),
        ("a label that is not in lower case", in_both("kind", "Kind")),
        ("a reserved label", in_both("kind", "le")),
        ("has an id as a label", in_both("kind", "process_id")),
        ("is an id; it would grow", in_code("kind.to_owned()", "process.id().to_string()")),
        ("not written as \"label\" => value", in_code("\"kind\" => kind.to_owned()", "&labels")),
        ("not a literal or constant", in_code("counter!(A, \"kind\"", "counter!(name(), \"kind\"")),
        ("named but never recorded", in_code("const A", "const B: &str = \"tidemill_ebbs_total\"; const A")),
        ("not described", in_code("describe_counter!(A", "describe_gauge!(A")),
    ] {
        let found = problems_of(&code, &page);
        assert!(
            found.iter().any(|problem| problem.contains(complaint)),
            "{complaint}: {found:?}\n{code}\n{page}"
        );
    }
}

#[test]
fn a_metric_outside_the_files_of_metrics_is_found() {
    let hidden = (Path::new("x/src/loop.rs").to_owned(), "gauge!(\"tidemill_depth\").set(1.0);".to_owned());
    let table =
        (Path::new("x/src/sql.rs").to_owned(), "query(\"select 1 from tidemill_process\")".to_owned());

    let id = (Path::new("x/src/loop.rs").to_owned(), "metrics::tides(&process.id().to_string());".to_owned());

    assert_eq!(problems(&[hidden], "").len(), 1);
    assert_eq!(problems(&[id], "").len(), 1);
    assert_eq!(problems(&[table], ""), Vec::<String>::new());
}
