//! How a step of ours continues one that Spring Batch began: only where the position has the same meaning.

use super::{ContextError, ExecutionContext};
use crate::job::step::STEP_TYPE_KEY;
use serde_json::Value;

/// Context key: how many items a reader of Spring Batch had read. The first chunk replaces it by a position of ours.
pub const ITEMS_KEY: &str = "spring.read.count";

/// The name of our chunk steps in [`STEP_TYPE_KEY`].
const CHUNK: &str = "chunk";

const TASKLET_TYPE_KEY: &str = "batch.taskletType";
const CHUNK_TASKLET: &str = "org.springframework.batch.core.step.item.ChunkOrientedTasklet";

const READ_COUNT: &str = ".read.count";

/// How the keys end in which our readers of one file save where the next record begins.
const OUR_POSITIONS: [&str; 3] = [".position", ".line", ".depth"];

/// How the keys end in which other readers and writers of Spring Batch save positions that a number of items does not
/// express: several files, pages of a table, a maximum, XML, and files that are written.
const OTHER_POSITIONS: [&str; 10] = [
    ".read.count.max",
    ".resourceIndex",
    ".resource.index",
    ".resource.item.count",
    ".start.after",
    ".current.count",
    ".written",
    ".position",
    ".record.count",
    "topic.partition.offsets",
];

/// Turns the context of a step of Spring Batch into one that a step of the type `step_type` continues. Others stay
/// unchanged.
pub fn adopt(context: &mut ExecutionContext, step_type: &str) -> Result<(), ContextError> {
    // Our own words have no dots.
    let Some(theirs) = context.get_text(STEP_TYPE_KEY).filter(|class| class.contains('.')) else {
        return Ok(());
    };
    let refused =
        |why: String| Err(ContextError::NotUnderstood(format!("Spring Batch began the step, and {why}")));
    let class = theirs.rsplit('.').next().unwrap_or(theirs);
    if class == "PartitionStep" || step_type.contains(':') {
        return refused("its partitions are Spring Batch's".to_owned());
    }
    let is_position =
        |key: &str| key.ends_with(READ_COUNT) || OTHER_POSITIONS.iter().any(|end| key.ends_with(end));
    let has_position = context.iter().any(|(key, _)| is_position(key));
    if context.get_text(TASKLET_TYPE_KEY) != Some(CHUNK_TASKLET) && !has_position {
        return Ok(());
    }
    if step_type != CHUNK {
        return refused(format!("there it has chunks, and here it is a {step_type} step"));
    }
    let counts: Vec<(String, Option<u64>)> = context
        .iter()
        .filter(|(key, _)| key.ends_with(READ_COUNT))
        .map(|(key, value)| (key.to_owned(), Value::as_u64(value)))
        .collect();
    let [(key, Some(items))] = counts.as_slice() else {
        let keys: Vec<&str> = counts.iter().map(|(key, _)| key.as_str()).collect();
        let found = if keys.is_empty() { "nothing".to_owned() } else { keys.join(", ") };
        return refused(format!("one number of items that were read is needed, but its context has {found}"));
    };
    // If Spring Batch itself continued a step of ours, the positions that only we save are those of the earlier run.
    let reader = key.strip_suffix(READ_COUNT).unwrap_or(key);
    let stale = OUR_POSITIONS.map(|end| format!("{reader}{end}"));
    let is_stale = |key: &str| stale.iter().any(|stale| stale == key);
    let is_other = |key: &str| OTHER_POSITIONS.iter().any(|end| key.ends_with(end)) && !is_stale(key);
    if let Some((key, _)) = context.iter().find(|(key, _)| is_other(key)) {
        return refused(format!("{key:?} is a position that only Spring Batch can continue"));
    }
    for key in &stale {
        context.remove(key);
    }
    // Spring Batch expects a number and would refuse this one, rather than read again what we have written.
    context.put(key, format!("continued by Tidemill after {items} items"));
    context.remove(TASKLET_TYPE_KEY);
    context.put(ITEMS_KEY, *items);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::step::OFFSET_KEY;

    fn begun(entries: &[(&str, Value)]) -> ExecutionContext {
        let mut context = ExecutionContext::new();
        context.put(STEP_TYPE_KEY, "org.springframework.batch.core.step.tasklet.TaskletStep");
        context.put(TASKLET_TYPE_KEY, CHUNK_TASKLET);
        entries.iter().for_each(|(key, value)| context.put(key, value.clone()));
        context
    }

    #[test]
    fn a_number_of_items_is_continued_by_a_chunk_step() {
        let mut context = begun(&[("FlatFileItemReader.read.count", 6.into()), (OFFSET_KEY, 2.into())]);

        adopt(&mut context, "chunk").unwrap();

        assert_eq!(context.get_long(ITEMS_KEY), Some(6));
        assert_eq!(context.get_long(OFFSET_KEY), Some(2));
        assert_eq!(context.get_long("FlatFileItemReader.read.count"), None);
        assert!(
            context.get_text("FlatFileItemReader.read.count").is_some(),
            "Java must not begin at the first item"
        );
        assert_eq!(crate::job::track::items_behind(&context), Some(8));
    }

    #[test]
    fn what_java_continued_after_us_is_continued_after_java() {
        let mut context =
            begun(&[("read.read.count", 9.into()), ("read.position", 70.into()), ("read.line", 5.into())]);

        adopt(&mut context, "chunk").unwrap();

        assert_eq!(context.get_long(ITEMS_KEY), Some(9));
        let mut subclass = begun(&[("a.read.count", 60.into())]);
        subclass.put(STEP_TYPE_KEY, "com.acme.AuditedStep");
        subclass.put(TASKLET_TYPE_KEY, "com.acme.Tasklet");
        adopt(&mut subclass, "chunk").unwrap();
        assert_eq!(subclass.get_long(ITEMS_KEY), Some(60), "a step of any class");
        assert_eq!((context.get("read.position"), context.get("read.line")), (None, None));
    }

    #[test]
    fn other_positions_are_refused_with_their_key() {
        for (entries, step_type, reason) in [
            (
                vec![("a.read.count", 1.into()), ("b.read.count", 1.into())],
                "chunk",
                "has a.read.count, b.read.count",
            ),
            (vec![], "chunk", "has nothing"),
            (vec![("a.read.count", "x".into())], "chunk", "has a.read.count"),
            (vec![("a.read.count", 1.into()), ("a.start.after", 1.into())], "chunk", "\"a.start.after\""),
            (
                vec![("a.read.count", 1.into()), ("out.current.count", 1.into())],
                "chunk",
                "\"out.current.count\"",
            ),
            (vec![("a.read.count", 1.into()), ("b.position", 1.into())], "chunk", "\"b.position\""),
            (vec![("a.read.count", 1.into())], "command", "a command step"),
            (vec![("a.read.count", 1.into())], "chunk:0", "partitions"),
        ] {
            let mut context = begun(&entries);
            let before = context.clone();

            let refused = adopt(&mut context, step_type).unwrap_err().to_string();

            assert!(refused.contains(reason) && refused.contains("Spring Batch began the step"), "{refused}");
            assert_eq!(context, before);
        }
    }

    #[test]
    fn a_tasklet_begins_again_and_a_context_of_ours_is_left_alone() {
        let mut tasklet = begun(&[("total", 7.into())]);
        tasklet.put(TASKLET_TYPE_KEY, "com.acme.Tidy");
        let mut ours = ExecutionContext::new();
        ours.put(STEP_TYPE_KEY, "chunk");
        ours.put("read.read.count", 7);

        for context in [&mut tasklet, &mut ours] {
            let before = context.clone();
            adopt(context, "chunk").unwrap();
            assert_eq!(*context, before);
        }
    }
}
