//! `job check`: prints what job files would run, or their errors. It does not open the database.

use crate::commands::prelude::*;
use crate::config::Output;
use crate::output::Column;
use serde_json::Value;
use std::num::NonZeroU32;
use std::path::PathBuf;
use tidemill_api::job::on_crash_text;
use tidemill_declare::model::{
    At, ChunkFile, JobFile, OutboxFile, ParameterFile, PartitionBy, ReadFile, StepFile, Work, WriteFile,
    WriteMode,
};
use tidemill_declare::{Diagnostics, Folder, Known, load_beside, load_folder};
use tidemill_domain::job::flow::Target;
use tidemill_domain::words::plural;
use tidemill_engine::item::storage;
use tidemill_engine::schedule::Schedule;

pub(super) fn run(paths: &[PathBuf], context: &Context) -> Result<Exit> {
    let connections: Vec<String> = context.settings().connections.keys().cloned().collect();
    let own_jobs = context.definitions.jobs.names();
    let channels = context.settings().alert.channels();
    let known = Known {
        connections: &connections,
        channels: Some(&channels),
        own_jobs: &own_jobs,
        lacks_objects: !storage::is_installed(),
    };
    let (mut files, mut problems) = (Vec::new(), Vec::new());
    for path in paths {
        if path.is_dir() {
            let Folder { files: valid, invalid } = load_folder(path, &known)?;
            if valid.is_empty() && invalid.is_empty() {
                let what = format!("{}: the folder has no job files", path.display());
                let fix = "put files with the ending .yaml into it, or name another folder";
                return Err(Failure::new(Code::BadJobFile, what, fix));
            }
            files.extend(valid);
            // The mistakes that make a caller invalid are listed with the job that it calls.
            problems.extend(invalid.into_iter().filter(|file| !file.is_caller).map(|file| file.problems));
        } else {
            match load_beside(path, &known) {
                Ok((file, _)) => files.push(file),
                Err(found) => problems.push(found),
            }
        }
    }
    if let Some(problems) = Diagnostics::join(problems) {
        return Err(problems.into());
    }
    match context.output() {
        Output::Table => {
            let text: Vec<String> = files.iter().map(about).collect();
            write_stdout(text.join("\n"))
        }
        output => listing(&files).print(output),
    }
}

fn listing(files: &[JobFile]) -> Listing {
    let columns: &[Column<JobFile>] = &[
        ("job", |file| json!(file.name.value)),
        ("file", |file| json!(file.path.display().to_string())),
        ("description", |file| json!(file.description)),
        ("fingerprint", |file| json!(file.fingerprint)),
        ("is_restartable", |file| json!(file.is_restartable)),
        ("on_crash", |file| json!(file.on_crash.as_str())),
        ("crash_restarts_max", |file| json!(file.on_crash.limit())),
        ("schedule", |file| json!(file.schedule.as_ref().map(|schedule| when(&schedule.value.schedule)))),
        ("parameters", |file| {
            file.parameters.iter().map(|parameter| parameter_json(&parameter.value)).collect()
        }),
        ("steps", |file| file.steps.iter().map(step_json).collect()),
    ];
    Listing::of("tidemill.job_file/v1", "No job files.", files, columns)
}

fn when(schedule: &Schedule) -> String {
    format!("{} in {}", schedule.cron, schedule.zone)
}

fn parameter_json(parameter: &ParameterFile) -> Value {
    json!({
        "name": parameter.spec.name,
        "type": parameter.spec.kind.as_str(),
        "is_required": parameter.spec.is_required,
        "is_identifying": parameter.spec.is_identifying,
        "default": parameter.default,
    })
}

fn step_json(step: &StepFile) -> Value {
    let on = |(pattern, target): &(At<String>, At<Target>)| json!({ "exit_code": pattern.value, "target": target_words(&target.value) });
    let mut object = json!({
        "name": step.name.value,
        "type": type_word(&step.work),
        "summary": summary(step),
        "on": step.on.iter().map(on).collect::<Vec<_>>(),
    });
    match &step.work {
        Work::Flow(steps) => object["steps"] = steps.iter().map(step_json).collect(),
        Work::Split(flows) => {
            let flow = |steps: &Vec<StepFile>| steps.iter().map(step_json).collect::<Value>();
            object["flows"] = flows.iter().map(flow).collect();
        }
        _ => {}
    }
    object
}

fn about(file: &JobFile) -> String {
    let mut text = format!("job {} ({})\n", file.name.value, file.path.display());
    if let Some(description) = &file.description {
        text.push_str(&format!("  {}\n", description.trim()));
    }
    text.push_str(&format!("  after a crash: {}\n", on_crash_text(file.on_crash.limit())));
    if !file.is_restartable {
        text.push_str("  runs once per instance, without restarts\n");
    }
    if let Some(schedule) = &file.schedule {
        text.push_str(&format!("  launched by a server: {}\n", when(&schedule.value.schedule)));
    }
    for parameter in &file.parameters {
        let ParameterFile { spec, default, .. } = &parameter.value;
        let need = match (default, spec.is_required) {
            (Some(default), _) => format!("{default:?} unless given"),
            (None, true) => "required".to_owned(),
            (None, false) => "optional".to_owned(),
        };
        let identity = if spec.is_identifying { "identifying" } else { "not identifying" };
        text.push_str(&format!("  parameter {} ({}, {need}, {identity})\n", spec.name, spec.kind.as_str()));
    }
    steps(&file.steps, 1, &mut text);
    text.push_str(&format!("  fingerprint {}\n", file.fingerprint));
    text
}

fn steps(all: &[StepFile], depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    for step in all {
        text.push_str(&format!("{indent}step {}: {}\n", step.name.value, summary(step)));
        match &step.work {
            Work::Flow(inner) => steps(inner, depth + 1, text),
            Work::Split(flows) => {
                for (index, inner) in flows.iter().enumerate() {
                    text.push_str(&format!("{indent}  flow {}\n", index + 1));
                    steps(inner, depth + 2, text);
                }
            }
            _ => {}
        }
        for (pattern, target) in &step.on {
            text.push_str(&format!("{indent}  on {}: {}\n", pattern.value, target_words(&target.value)));
        }
    }
}

fn type_word(work: &Work) -> &'static str {
    match work {
        Work::Chunk(_) => "chunk",
        Work::Command(_) => "command",
        Work::Sql(_) => "sql",
        Work::Assert(_) => "assert",
        Work::Spark(_) => "spark",
        Work::Emr(_) => "emr",
        Work::Job(_) => "job",
        Work::Flow(_) => "flow",
        Work::Split(_) => "split",
        Work::Decide(_) => "decide",
    }
}

fn summary(step: &StepFile) -> String {
    let mut text = work_words(&step.work);
    if let Some(At { value: request, .. }) = &step.pool {
        let units = |units: NonZeroU32| format!("{} of ", plural(units.get(), "unit", "units"));
        let units = request.units.map_or_else(String::new, units);
        text.push_str(&format!(", with {units}pool {}", request.pool));
    }
    text
}

fn work_words(work: &Work) -> String {
    match work {
        Work::Chunk(chunk) => chunk_words(chunk),
        Work::Command(command) => {
            let words: Vec<&str> = command.words.iter().map(|word| word.value.as_str()).collect();
            format!("command {}", words.join(" "))
        }
        Work::Sql(sql) => {
            let place = sql.connection.as_ref().map_or(String::new(), |name| format!(" on {}", name.value));
            format!("{}{place}", plural(sql.statements.len(), "statement of SQL", "statements of SQL"))
        }
        Work::Assert(all) => {
            let expected: Vec<&str> = all.iter().map(|one| one.expect.value.trim()).collect();
            format!("assert {}", expected.join(" and "))
        }
        Work::Spark(spark) => format!("spark {}", spark.app.value),
        Work::Emr(emr) => format!("emr {}", emr.app.value),
        Work::Job(call) => format!("job {}", call.job.value),
        Work::Flow(_) => "flow".to_owned(),
        Work::Split(flows) => format!("{} flows at the same time", flows.len()),
        Work::Decide(expression) => format!("decide {}", expression.value.trim()),
    }
}

fn chunk_words(chunk: &ChunkFile) -> String {
    let from = match &chunk.read.value {
        ReadFile::File(file) => format!("{} {}", file.format.word(), file.path.value),
        ReadFile::Sql { connection: Some(name), .. } => format!("sql on {}", name.value),
        ReadFile::Sql { connection: None, .. } => "sql".to_owned(),
        ReadFile::Kafka(file) => format!("kafka {}", file.topic.value),
        ReadFile::Http(file) => format!("http {}", file.endpoint.url.value),
    };
    let mut text = format!("chunks of {} from {from} to {}", chunk.size, write_words(&chunk.write.value));
    match chunk.partitions.as_ref().map(|partitions| &partitions.value.by) {
        Some(PartitionBy::File { pattern }) => {
            text.push_str(&format!(", a partition per file of {}", pattern.value));
        }
        Some(PartitionBy::RowGroup { pattern }) => {
            text.push_str(&format!(", a partition per row group of {}", pattern.value));
        }
        Some(PartitionBy::Range { column, table, count, .. }) => {
            let parts = match count {
                Some(count) => plural(*count, "partition", "partitions"),
                None => "as many partitions as the pool grants".to_owned(),
            };
            text.push_str(&format!(", {parts} by {} of {}", column.value, table.value));
        }
        None => {}
    }
    if chunk.threads > 1 {
        text.push_str(&format!(", {} threads", chunk.threads));
    }
    if let Some(skip) = &chunk.skip {
        text.push_str(&format!(", skips up to {}", skip.limit));
    }
    if let Some(retry) = &chunk.retry {
        text.push_str(&format!(", {}", plural(retry.limit, "attempt", "attempts")));
    }
    text
}

fn write_words(write: &WriteFile) -> String {
    let on = |connection: &Option<At<String>>| match connection {
        Some(name) => format!(" on {}, at least once", name.value),
        None => String::new(),
    };
    match write {
        WriteFile::File(file) => format!("{} {}", file.format.word(), file.path.value),
        WriteFile::Statement(file) if file.is_call => format!("a procedure{}", on(&file.connection)),
        WriteFile::Statement(file) => format!("a statement{}", on(&file.connection)),
        WriteFile::Sql(file) => {
            let mode = match file.mode {
                WriteMode::Copy => "copy",
                WriteMode::Insert => "insert",
                WriteMode::Upsert(_) => "upsert",
                WriteMode::Delete(_) => "delete",
            };
            let topic = |events: &OutboxFile| format!(" and topic {} of the outbox", events.topic.value);
            let events = file.events.as_deref().map_or_else(String::new, topic);
            format!("table {} ({mode}){}{events}", file.table.value, on(&file.connection))
        }
        WriteFile::Outbox(events) => format!("topic {} of the outbox", events.topic.value),
        WriteFile::Http(file) => format!("http {} {}", file.method, file.endpoint.url.value),
        WriteFile::Kafka(file) => format!("kafka {}, at least once", file.topic.value),
        WriteFile::All(parts) => {
            parts.iter().map(|part| write_words(&part.value)).collect::<Vec<_>>().join(" and ")
        }
        WriteFile::Choose(branches) => {
            let branches: Vec<String> = branches.iter().map(|branch| write_words(&branch.to.value)).collect();
            format!("one of ({})", branches.join("; "))
        }
    }
}

/// A target as job files write it.
fn target_words(target: &Target) -> String {
    match target {
        Target::Next => "next".to_owned(),
        Target::To(step) => format!("to({step})"),
        Target::End(None) => "end".to_owned(),
        Target::End(Some(code)) => format!("end({code})"),
        Target::Fail => "fail".to_owned(),
        Target::Stop(None) => "stop".to_owned(),
        Target::Stop(Some(step)) => format!("stop_and_restart({step})"),
    }
}
