//! Steps: their kind, and the keys of that kind.

use super::{Fields, Reader, Table, Truth, all, tables};
use crate::build::COUNTERS;
use crate::document::{Content, Key, Node};
use crate::model::{At, CommandFile, EmrFile, EnvFile, JobCall, SparkFile, SqlFile, StepFile, Work};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tidemill_aws::EmrPlace;
use tidemill_domain::nearest::nearest;

const COMMON: &[&str] = &["name", "description", "on"];

/// Keys of steps that do work themselves.
const OF_WORK: &[&str] = &["allow_start_if_complete", "start_limit", "pool"];

/// The kinds of steps: the key that makes one, and its other keys.
const KINDS: [(&str, &[&str]); 10] = [
    ("chunk", &["partitions", "threads", "read", "process", "write", "skip", "retry", "set"]),
    ("command", &["env", "folder", "timeout", "exit_codes", "set"]),
    ("sql", &["connection", "set"]),
    ("assert", &[]),
    ("spark", &["set"]),
    ("emr", &[]),
    ("job", &["parameters"]),
    ("flow", &[]),
    ("split", &[]),
    ("decide", &[]),
];

/// Keys that authors put one level too high.
const INNER: [(&str, &str); 19] = [
    ("sort", "process: { sort: … }"),
    ("dedupe", "process: { dedupe: … }"),
    ("validate", "process: { validate: … }"),
    ("lookup", "process: { lookup: … }"),
    ("filter", "process: { filter: … }"),
    ("map", "process: { map: … }"),
    ("csv", "read: { csv: … } or write: { csv: … }"),
    ("jsonl", "read: { jsonl: … } or write: { jsonl: … }"),
    ("path", "read: { csv: { path: … } }"),
    ("query", "read: { sql: { query: … } }"),
    ("expect", "assert: { query: …, expect: … }"),
    ("severity", "assert: { severity: … }"),
    ("table", "write: { sql: { table: … } }"),
    ("mode", "write: { sql: { mode: … } }"),
    ("limit", "skip: { limit: … } or retry: { limit: … }"),
    ("reject", "skip: { reject: … }"),
    ("reject_source", "skip: { reject_source: … }"),
    ("backoff", "retry: { backoff: … }"),
    ("pattern", "partitions: { by: file, pattern: … }"),
];

const STEP: Table = Table {
    what: "a step",
    keys: COMMON,
    example: "- name: load, and below it chunk, command, sql, assert, spark, emr, job, flow, split or decide",
};

tables! {
    SPARK = "spark" ["app" "args" "master" "conf" "timeout"]
        "spark: { app: \"job.py\", args: [\"${date}\"] }";
    EMR = "emr" ["cluster" "application" "role" "logs" "app" "args" "conf" "region" "timeout"]
        "emr: { cluster: j-2AXXXXXXGAPLF, app: \"s3://bucket/job.py\" }";
    ENV = "env" ["clear" "pass"]
        "env: { clear: true, pass: [PATH] }";
}

const STEPS_MAX: usize = 1000;

const TIMEOUT_MAX: Duration = Duration::from_secs(30 * 86_400);

impl Reader<'_> {
    /// Those that can be parsed; the others are noted as gaps.
    pub(super) fn steps(&mut self, node: &Node, name: &str) -> Option<Vec<StepFile>> {
        let Content::List(items) = &node.content else {
            let what = format!("{name} is a list of steps, and here is {}", node.type_words());
            self.wrong(node, what, format!("begin each step with a dash: {name}: and below it - name: load"));
            return None;
        };
        if items.is_empty() {
            self.wrong(node, format!("{name} is an empty list"), format!("write a step: {}", STEP.example));
            return None;
        }
        self.steps += items.len();
        if self.steps > STEPS_MAX {
            let what = format!("the job has more than {STEPS_MAX} steps");
            self.wrong(node, what, "divide it into several jobs, which a job step can run");
            return None;
        }
        let mut steps = Vec::new();
        for item in items {
            match self.step(item) {
                Some(step) => steps.push(step),
                None => self.gaps.steps.push(name_of(item)),
            }
        }
        Some(steps)
    }

    fn step(&mut self, node: &Node) -> Option<StepFile> {
        let fields = self.entries(node, "a step", STEP)?;
        let kind = self.kind(&fields);
        for (key, _) in fields.entries {
            self.refuse_key(key, kind);
        }
        let name = self.required_text(&fields, "name");
        let on = fields.get("on").map_or(Some(Vec::new()), |node| self.transitions(node));
        let allow_start_if_complete = self.truth_of(&fields, "allow_start_if_complete", Truth::No);
        let start_limit = self.number_of(&fields, "start_limit", 1..=1_000_000);
        let pool = fields.get("pool").map_or(Some(None), |node| self.pool(node).map(Some));
        let kind = kind?;
        let set = fields.get("set").map_or(Some(Vec::new()), |node| self.set(node, kind));
        let work = match (kind, fields.get(kind)) {
            ("sql", value) => self.sql(&fields, value).map(Work::Sql),
            (_, None) => None,
            ("chunk", Some(value)) => self.chunk(&fields, value).map(|chunk| Work::Chunk(Box::new(chunk))),
            ("command", Some(value)) => self.command(&fields, value).map(Work::Command),
            ("assert", Some(value)) => self.assertions(value).map(Work::Assert),
            ("spark", Some(value)) => self.spark(value).map(Work::Spark),
            ("emr", Some(value)) => self.emr(value).map(Work::Emr),
            ("job", Some(value)) => self.job_call(&fields, value).map(Work::Job),
            ("flow", Some(value)) => self.steps(value, "flow").map(Work::Flow),
            ("split", Some(value)) => self.split(value).map(Work::Split),
            (_, Some(value)) => self.text(value, "decide").map(Work::Decide),
        };
        Some(StepFile {
            name: name?,
            work: work?,
            on: on?,
            allow_start_if_complete,
            start_limit,
            pool: pool?,
            set: set?,
        })
    }

    /// The names of values, and where they come from.
    fn set(&mut self, node: &Node, kind: &str) -> Option<Vec<(At<String>, At<String>)>> {
        let example = match kind {
            "command" | "spark" => {
                let names = self.texts(node, "set")?;
                return Some(names.into_iter().map(|name| (name.clone(), name)).collect());
            }
            "chunk" => "set: { loaded: written }",
            _ => "set: { total: \"select sum(amount) from orders\" }",
        };
        let entries = self.named(node, "set is a table of names", example)?;
        all(entries.iter().map(|(key, node)| {
            if kind == "chunk" {
                self.word(node, &key.name, &COUNTERS.map(|(word, _)| (word, ())))?;
            }
            Some((At { value: key.name.clone(), place: key.place }, self.text(node, &key.name)?))
        }))
    }

    fn kind(&mut self, fields: &Fields<'_>) -> Option<&'static str> {
        let found: Vec<_> =
            KINDS.iter().map(|(kind, _)| *kind).filter(|kind| fields.key(kind).is_some()).collect();
        // A step that only sets values by queries.
        let of_sql = |(key, _): &(Key, Node)| {
            let keys = [COMMON, OF_WORK, &["connection", "set"]];
            keys.iter().any(|keys| keys.contains(&key.name.as_str()))
        };
        match found.as_slice() {
            [one] => Some(one),
            [] if fields.key("set").is_some() && fields.entries.iter().all(of_sql) => Some("sql"),
            [] if fields.key("read").is_some() || fields.key("write").is_some() => {
                let what = "this step does not say how many items are one chunk";
                self.wrong_at(fields.place, what, "add chunk: 1000");
                None
            }
            [] => {
                let kinds = KINDS.map(|(kind, _)| kind);
                let near = fields.entries.iter().find_map(|(key, _)| nearest(&key.name, kinds));
                // A misspelt kind is reported as an unknown key.
                if near.is_none() {
                    let what = "this step does not say what it does";
                    self.wrong_at(fields.place, what, format!("give it one of {}", kinds.join(", ")));
                }
                None
            }
            [.., second] => {
                let what = format!("a step does one thing, and this one has {}", found.join(" and "));
                if let Some(key) = fields.key(second) {
                    self.wrong_key(key, what, None, "make two steps of it");
                }
                None
            }
        }
    }

    fn refuse_key(&mut self, key: &Key, kind: Option<&'static str>) {
        let name = key.name.as_str();
        let of_kind =
            |kind: &str| KINDS.iter().find(|(known, _)| *known == kind).map_or(&[][..], |(_, own)| *own);
        let is_kind = KINDS.iter().any(|(kind, _)| *kind == name);
        let does_nothing = matches!(kind, Some("flow" | "split" | "decide"));
        let is_common = COMMON.contains(&name) || OF_WORK.contains(&name) && !does_nothing;
        if is_kind || is_common || kind.is_some_and(|kind| of_kind(kind).contains(&name)) {
            return;
        }
        if OF_WORK.contains(&name)
            && let Some(kind) = kind
        {
            let what =
                format!("{name:?} belongs to a step that does something itself, and this is a {kind} step");
            let fix = format!("take {name} out, or give it to the steps that it is about");
            self.wrong_key(key, what, None, fix);
            return;
        }
        let home = match kind {
            Some("spark") if SPARK.keys.contains(&name) => kind,
            Some("emr") if EMR.keys.contains(&name) => kind,
            Some("assert") if name == "set" => kind,
            _ => None,
        };
        if let Some(home) = home {
            let what = format!("the key {name:?} does not stand in a step itself");
            self.wrong_key(key, what, None, format!("write it as {home}: {{ {name}: … }}"));
            return;
        }
        if let Some((owner, _)) = KINDS.iter().find(|(_, own)| own.contains(&name)) {
            if let Some(kind) = kind {
                let what = format!("{name:?} belongs to a {owner} step, and this is a {kind} step");
                self.wrong_key(key, what, None, format!("take {name} out, or make a {owner} step of it"));
            }
            return;
        }
        if let Some((_, home)) = INNER.iter().find(|(inner, _)| *inner == name) {
            let what = format!("the key {name:?} does not stand in a step itself");
            self.wrong_key(key, what, None, format!("write it as {home}"));
            return;
        }
        let mut known: Vec<&str> =
            COMMON.iter().chain(if does_nothing { &[] } else { OF_WORK }).copied().collect();
        match kind {
            Some(kind) => {
                known.push(kind);
                known.extend(of_kind(kind));
            }
            None => known.extend(KINDS.iter().flat_map(|(kind, own)| std::iter::once(kind).chain(*own))),
        }
        // Several kinds have `set`.
        let mut listed = BTreeSet::new();
        known.retain(|key| listed.insert(*key));
        let what = kind.map_or("a step".to_owned(), |kind| format!("a {kind} step"));
        self.unknown(key, &what, &known);
    }

    fn command(&mut self, fields: &Fields<'_>, value: &Node) -> Option<CommandFile> {
        if let Content::Scalar(text) = &value.content {
            let words =
                text.split_whitespace().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", ");
            let what = "command is a list of words, and here is a text; no shell divides it";
            self.wrong(value, what, format!("write it as command: [{words}]"));
            return None;
        }
        let words = self.texts(value, "command");
        let env = fields.get("env").map_or(Some(EnvFile::default()), |node| self.env(node));
        let folder = self.text_of(fields, "folder");
        let timeout = self.timeout(fields);
        let exit_codes = fields.get("exit_codes").map_or(Some(BTreeMap::new()), |node| self.exit_codes(node));
        Some(CommandFile { words: words?, env: env?, folder, timeout, exit_codes: exit_codes? })
    }

    /// Variables by name, and our keywords `clear` and `pass`.
    fn env(&mut self, node: &Node) -> Option<EnvFile> {
        let Content::Map(entries) = &node.content else {
            return self.named_texts(node, "env").map(|set| EnvFile { set, ..EnvFile::default() });
        };
        let of_words = |(key, _): &&(Key, Node)| ENV.keys.contains(&key.name.as_str());
        let (words, variables): (Vec<_>, Vec<_>) = entries.iter().partition(of_words);
        let words: Vec<(Key, Node)> = words.into_iter().cloned().collect();
        let fields = Fields { table: ENV, place: node.place, entries: &words };
        let is_cleared = self.truth_of(&fields, "clear", Truth::No);
        let pass = fields.get("pass").map_or(Some(Vec::new()), |node| self.texts(node, "pass"))?;
        let variables = Content::Map(variables.into_iter().cloned().collect());
        let set = self.named_texts(&Node { content: variables, ..node.clone() }, "env")?;
        Some(EnvFile { set, is_cleared, pass: pass.into_iter().map(|name| name.value).collect() })
    }

    fn timeout(&mut self, fields: &Fields<'_>) -> Option<Duration> {
        let node = fields.get("timeout")?;
        self.duration(node, "timeout", Duration::from_millis(100)..=TIMEOUT_MAX)
    }

    pub(super) fn named_texts(&mut self, node: &Node, name: &str) -> Option<BTreeMap<String, At<String>>> {
        let (what, example) =
            (format!("{name} is a table of names and texts"), format!("{name}: {{ NAME: \"text\" }}"));
        let entries = self.named(node, &what, &example)?;
        let texts = all(entries.iter().map(|(key, value)| {
            let text = match &value.content {
                // An empty text is allowed.
                Content::Scalar(text) => At { value: text.clone(), place: value.place },
                _ => self.text(value, &key.name)?,
            };
            Some((key.name.clone(), text))
        }));
        Some(texts?.into_iter().collect())
    }

    fn exit_codes(&mut self, node: &Node) -> Option<BTreeMap<i32, String>> {
        let names = self.named_texts(node, "exit_codes")?;
        let mut codes = BTreeMap::new();
        let Content::Map(entries) = &node.content else { return None };
        for (key, _) in entries {
            match key.name.parse::<i32>().ok().filter(|code| (0..=255).contains(code)) {
                Some(code) => {
                    codes.insert(code, names.get(&key.name)?.value.clone());
                }
                None => {
                    let what = format!("{:?} is no exit code of a program", key.name);
                    let fix = "write a number from 0 to 255, such as exit_codes: { 3: NO_DATA }";
                    self.wrong_key(key, what, None, fix);
                }
            }
        }
        Some(codes)
    }

    fn sql(&mut self, fields: &Fields<'_>, value: Option<&Node>) -> Option<SqlFile> {
        let statements = value.map_or(Some(Vec::new()), |value| self.texts(value, "sql"));
        let connection = self.text_of(fields, "connection");
        Some(SqlFile { statements: statements?, connection })
    }

    fn spark(&mut self, value: &Node) -> Option<SparkFile> {
        let fields = self.table(value, "spark", SPARK)?;
        let app = self.required_text(&fields, "app");
        let args = fields.get("args").map_or(Some(Vec::new()), |node| self.texts(node, "args"));
        let master = self.text_of(&fields, "master");
        let conf = fields.get("conf").map_or(Some(BTreeMap::new()), |node| self.named_texts(node, "conf"));
        let timeout = self.timeout(&fields);
        Some(SparkFile { app: app?, args: args?, master, conf: conf?, timeout })
    }

    fn emr(&mut self, value: &Node) -> Option<EmrFile> {
        let fields = self.table(value, "emr", EMR)?;
        let place = self.emr_place(&fields);
        let app = self.required_text(&fields, "app");
        let args = fields.get("args").map_or(Some(Vec::new()), |node| self.texts(node, "args"));
        let conf = fields.get("conf").map_or(Some(BTreeMap::new()), |node| self.named_texts(node, "conf"));
        let region = self.text_of(&fields, "region");
        let timeout = self.timeout(&fields);
        Some(EmrFile { place: place?, app: app?, args: args?, conf: conf?, region, timeout })
    }

    fn emr_place(&mut self, fields: &Fields<'_>) -> Option<EmrPlace<At<String>>> {
        let (cluster, application) = (self.text_of(fields, "cluster"), self.text_of(fields, "application"));
        let (role, logs) = (self.text_of(fields, "role"), self.text_of(fields, "logs"));
        let (what, fix) = match (fields.key("cluster"), fields.key("application"), fields.key("role")) {
            (None, None, _) => (
                "this step does not say where the application runs",
                "add cluster: with the id of a running cluster, or application: with that of EMR Serverless",
            ),
            (Some(_), Some(_), _) => (
                "an application runs on a cluster or in EMR Serverless, and here are both",
                "take one of them out",
            ),
            (Some(_), None, _) if fields.key("logs").is_some() => (
                "a cluster has its own place for logs",
                "take logs out, or write application instead of cluster",
            ),
            (None, Some(_), None) => (
                "an application of EMR Serverless runs as a role",
                "add role: arn:aws:iam::123456789012:role/NAME",
            ),
            (Some(_), None, _) => return Some(EmrPlace::Cluster { id: cluster?, role }),
            (None, Some(_), Some(_)) => {
                return Some(EmrPlace::Serverless { application: application?, role: role?, logs });
            }
        };
        self.wrong_at(fields.place, what, fix);
        None
    }

    fn job_call(&mut self, fields: &Fields<'_>, value: &Node) -> Option<JobCall> {
        let job = self.text(value, "job");
        let given = fields.get("parameters").map(|node| self.named_texts(node, "parameters"));
        let parameters = given.map_or(Some(None), |given| given.map(Some))?;
        Some(JobCall { job: job?, parameters })
    }

    fn split(&mut self, value: &Node) -> Option<Vec<Vec<StepFile>>> {
        let flows = match &value.content {
            Content::List(flows) if flows.iter().all(|flow| matches!(flow.content, Content::List(_))) => {
                flows
            }
            _ => {
                let what = "split is a list of flows, each of which is a list of steps";
                let fix = "write two dashes before the first step of each flow: - - name: first";
                self.wrong(value, what, fix);
                return None;
            }
        };
        if flows.len() < 2 {
            let what = "a split has flows that run at the same time, and here are fewer than two";
            self.wrong(value, what, "add a flow, or write flow: with its steps");
            return None;
        }
        all(flows.iter().map(|flow| self.steps(flow, "a flow of split")))
    }
}

/// The name of a step that could not be parsed.
fn name_of(node: &Node) -> Option<String> {
    let Content::Map(entries) = &node.content else { return None };
    let (_, name) = entries.iter().find(|(key, _)| key.name == "name")?;
    match &name.content {
        Content::Scalar(name) => Some(name.clone()),
        _ => None,
    }
}
