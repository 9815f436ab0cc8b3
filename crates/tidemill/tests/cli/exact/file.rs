//! A job that writes a file dies at points of its chunks and around its end, when the file gets its name.

use super::{die_at, go_on, stage};
use crate::examples::Program;
use tidemill_store::scratch::Scratch;

const IN_CHUNKS: &[&str] = &[
    "chunk_before_write:4",
    "chunk_after_write:4",
    "chunk_after_save:4",
    "chunk_before_commit:4",
    "chunk_after_commit:4",
    "chunk_after_commit:11",
];

/// Commits from the last chunks to the end of the execution; there are eleven chunks.
const AT_THE_END: std::ops::RangeInclusive<u32> = 17..=23;

/// Dies at the point, goes on, and returns what the file holds.
fn file_after(point: &str) -> String {
    let database = Scratch::file();
    let program = Program::new("hello_chunk", stage(database.url()));

    die_at(&program, &["job", "run", "hello"], point);
    let finished = go_on(&program, &["job", "run", "hello"]);

    finished.succeeds();
    assert!(!program.stage.path("doubled.txt.part").exists(), "{point}: something is left over");
    std::fs::read_to_string(program.stage.path("doubled.txt")).unwrap()
}

#[test]
fn a_file_whose_writer_dies_is_exact_after_a_restart() {
    let at_the_end = AT_THE_END.map(|pass| format!("before_commit:{pass}"));
    let points: Vec<String> = IN_CHUNKS.iter().map(|point| (*point).to_owned()).chain(at_the_end).collect();
    let expected: String = (1..=100).map(|number| format!("{}\n", number * 2)).collect();

    std::thread::scope(|scope| {
        for share in points.chunks(points.len().div_ceil(4)) {
            scope.spawn(|| share.iter().for_each(|point| assert_eq!(file_after(point), expected, "{point}")));
        }
    });
}
