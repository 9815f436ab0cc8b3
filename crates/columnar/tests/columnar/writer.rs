//! Writing what others read, through failures of the step.

use crate::Folder;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use tidemill_columnar::{ColumnarWriter, row_writer};
use tidemill_domain::item::{Codec, ColumnarFormat, ColumnarKind, FieldType, ItemError, Row, Value};
use tidemill_domain::time::Timestamp;
use tidemill_engine::item::ItemsReader;
use tidemill_engine::job::{Job, Step};
use tidemill_engine::testing::{JobBench, TestRun};

const COLUMNS: [(&str, FieldType); 14] = [
    ("id", FieldType::Long),
    ("bool", FieldType::Bool),
    ("int", FieldType::Int),
    ("float", FieldType::Float),
    ("double", FieldType::Double),
    ("decimal", FieldType::Decimal { digits: 18, scale: 2 }),
    ("text", FieldType::Text),
    ("bytes", FieldType::Bytes),
    ("date", FieldType::Date),
    ("time", FieldType::Time),
    ("datetime", FieldType::DateTime),
    ("instant", FieldType::Instant),
    ("uuid", FieldType::Uuid),
    ("json", FieldType::Json),
];

/// Every third row has values of the types, every third texts of them, and every third null.
fn row(id: i64) -> Row {
    let typed: Vec<Value> = vec![
        id.into(),
        true.into(),
        (-7).into(),
        0.5.into(),
        1.5.into(),
        Value::Decimal("-12.5".parse().unwrap()),
        format!("가 {id}").into(),
        vec![0_u8, 255].into(),
        jiff::civil::date(1969, 12, 31).into(),
        jiff::civil::time(23, 59, 59, 1000).into(),
        jiff::civil::date(2026, 11, 18).at(1, 2, 3, 4000).into(),
        Timestamp::from_micros(1_000_000).into(),
        uuid::Uuid::from_u128(7).into(),
        serde_json::json!({ "a": [1] }).into(),
    ];
    let values = match id % 3 {
        0 => typed,
        1 => typed
            .into_iter()
            .map(|value| match value {
                bytes @ Value::Bytes(_) => bytes,
                value => Value::Text(value.to_string()),
            })
            .collect(),
        _ => vec![id.into()],
    };
    let names: Arc<[String]> = COLUMNS.iter().map(|(name, _)| (*name).to_owned()).collect();
    Row::new(names, values)
}

/// What Python prints for rows of such a file.
const SHOW: &str = "
def show(rows):
    for row in rows:
        n = row['id']
        want = {'id': n, 'bool': True, 'int': -7, 'float': 0.5, 'double': 1.5, 'decimal': Decimal('-12.50'),
            'text': f'가 {n}', 'bytes': b'\\x00\\xff', 'date': date(1969, 12, 31), 'time': time(23, 59, 59, 1),
            'datetime': datetime(2026, 11, 18, 1, 2, 3, 4), 'instant': datetime(1970, 1, 1, 0, 0, 1, tzinfo=timezone.utc),
            'uuid': str(uuid.UUID(int=7)), 'json': '{\"a\":[1]}'}
        if n % 3 == 2: want = {name: n if name == 'id' else None for name in want}
        assert row == want, (row, want)
    print([row['id'] for row in rows] == list(range(25)))
";

fn writer(kind: ColumnarKind, folder: &Folder, codec: Codec) -> ColumnarWriter<Row> {
    let format = ColumnarFormat::new(kind).codec(codec).group_rows(10);
    let format = COLUMNS.into_iter().fold(format, |format, (name, kind)| format.column(name, kind));
    row_writer("out", folder.path("out"), format)
}

/// Writes 25 rows in chunks of four. The step fails at the row that is named, until that is -1.
fn job(writer: ColumnarWriter<Row>, failing: Arc<AtomicI64>) -> Job {
    let step = Step::chunk("write", 4)
        .reader(ItemsReader::new("rows", 0..25_i64))
        .process(move |id: &i64| match failing.load(Ordering::Relaxed) == *id {
            true => Err(ItemError::fatal("it dies here")),
            false => Ok(Some(row(*id))),
        })
        .writer(writer);
    Job::new("write").step(step.build())
}

async fn run(bench: &JobBench, job: &Job) -> TestRun {
    bench.run(job, &Default::default()).await.unwrap()
}

#[tokio::test]
async fn every_format_and_codec_is_read_by_others_after_failures() {
    let read = |kind: ColumnarKind| match kind {
        ColumnarKind::Parquet => "show(pq.read_table('out').to_pylist())",
        ColumnarKind::Arrow => "show(ipc.open_file('out').read_all().to_pylist())",
        ColumnarKind::Avro => "show(list(fastavro.reader(open('out', 'rb'))))",
    };
    for kind in ColumnarKind::ALL {
        for codec in kind.codecs() {
            let folder = Folder::new();
            let (bench, failing) = (JobBench::new().await.unwrap(), Arc::new(AtomicI64::new(0)));
            let job = job(writer(kind, &folder, *codec), failing.clone());
            for death in [2, 13, 24] {
                failing.store(death, Ordering::Relaxed);
                assert!(!run(&bench, &job).await.is_completed());
                assert_eq!(folder.names(), ["out.part", "out.whole"], "{kind}: {death}");
            }
            failing.store(-1, Ordering::Relaxed);
            let ran = run(&bench, &job).await;
            assert!(ran.is_completed(), "{kind} with {codec}: {:?}", ran.step("write").unwrap().exit);

            assert_eq!(folder.names(), ["out"]);
            let Some(same) = folder.python(&format!("{SHOW}{}", read(kind))) else { return };
            assert_eq!(same, "True", "{kind} with {codec}");
        }
    }
}

#[tokio::test]
async fn row_groups_have_the_size_that_was_asked_for() {
    let folder = Folder::new();
    let (bench, failing) = (JobBench::new().await.unwrap(), Arc::new(AtomicI64::new(-1)));
    let job = job(writer(ColumnarKind::Parquet, &folder, Codec::Zstd), failing);

    assert!(run(&bench, &job).await.is_completed());

    let program = "f = pq.ParquetFile('out').metadata\nprint([f.row_group(n).num_rows for n in range(f.num_row_groups)])";
    let Some(groups) = folder.python(program) else { return };
    assert_eq!(groups, "[10, 10, 5]");
}

#[tokio::test]
async fn a_value_that_does_not_fit_is_skipped_and_a_file_without_rows_is_a_file() {
    let folder = Folder::new();
    let bench = JobBench::new().await.unwrap();
    let write = |path: &str, texts: &'static [&'static str]| {
        let format = ColumnarFormat::new(ColumnarKind::Parquet).column("n", FieldType::Int);
        let step = Step::chunk("write", 10)
            .reader(ItemsReader::new("texts", texts.iter().copied()))
            .process(|text: &&str| Ok(Some(Row::new(["n".to_owned()].into(), vec![(*text).into()]))))
            .writer(row_writer("out", folder.path(path), format))
            .skip([tidemill_domain::item::ErrorKind::WRITE], 5);
        Job::new(path).step(step.build())
    };

    let skipped = run(&bench, &write("some", &["1", "x", "3000000000", "4"])).await;
    let none = run(&bench, &write("none", &[])).await;

    assert!(skipped.is_completed() && none.is_completed());
    assert_eq!(
        (skipped.step("write").unwrap().counters.skips(), folder.names()),
        (2, vec!["none".into(), "some".into()])
    );
    let program = "print(pq.read_table('some').to_pylist(), pq.read_table('none').num_rows)";
    let Some(seen) = folder.python(program) else { return };
    assert_eq!(seen, "[{'n': 1}, {'n': 4}] 0");
}

#[tokio::test]
async fn groups_of_large_rows_end_at_a_size() {
    let large = "x".repeat(8 * 1024 * 1024);
    for kind in [ColumnarKind::Arrow, ColumnarKind::Avro] {
        let (folder, bench, large) = (Folder::new(), JobBench::new().await.unwrap(), large.clone());
        let format = ColumnarFormat::new(kind).column("text", FieldType::Text);
        let step = Step::chunk("write", 1)
            .reader(ItemsReader::new("rows", 0..20_i64))
            .process(move |_: &i64| {
                Ok(Some(Row::new(["text".to_owned()].into(), vec![large.as_str().into()])))
            })
            .writer(row_writer("out", folder.path("out"), format).sync(false));

        let ran = run(&bench, &Job::new("write").step(step.build())).await;

        assert!(ran.is_completed(), "{:?}", ran.step("write").unwrap().exit);
        let program = match kind {
            ColumnarKind::Avro => "print([b.num_records for b in fastavro.block_reader(open('out', 'rb'))])",
            _ => {
                "f = ipc.open_file('out')\nprint([f.get_batch(n).num_rows for n in range(f.num_record_batches)])"
            }
        };
        let Some(groups) = folder.python(program) else { return };
        assert_eq!(groups, "[8, 8, 4]", "{kind}");
    }
}

#[tokio::test]
async fn columns_that_were_changed_in_between_make_no_file() {
    for kind in ColumnarKind::ALL {
        let (folder, bench) = (Folder::new(), JobBench::new().await.unwrap());
        let failing = Arc::new(AtomicI64::new(13));
        let writer = |columns: [(&str, FieldType); 2]| {
            let format = ColumnarFormat::new(kind);
            let format = columns.into_iter().fold(format, |format, (name, kind)| format.column(name, kind));
            row_writer("out", folder.path("out"), format)
        };
        let before = job(writer([("text", FieldType::Text), ("json", FieldType::Text)]), failing.clone());
        let after = job(writer([("json", FieldType::Text), ("text", FieldType::Text)]), failing.clone());

        assert!(!run(&bench, &before).await.is_completed());
        failing.store(-1, Ordering::Relaxed);
        let changed = run(&bench, &after).await.step("write").unwrap().exit.description.clone();

        assert!(changed.contains("some of its rows were committed with other columns"), "{kind}: {changed}");
        assert_eq!(folder.names(), ["out.part", "out.whole"]);
    }
}

#[tokio::test]
async fn options_that_cannot_work_are_refused_before_anything_is_written() {
    let folder = Folder::new();
    let bench = JobBench::new().await.unwrap();
    let nothing = ColumnarFormat::new(ColumnarKind::Arrow);
    let twice = nothing.clone().column("id", FieldType::Long).column("id", FieldType::Text);
    let codec = nothing.clone().column("id", FieldType::Long).codec(Codec::Gzip);
    let name = ColumnarFormat::new(ColumnarKind::Avro).column("1 st", FieldType::Long);

    for (format, why) in [
        (nothing, "needs its columns and their types"),
        (twice, "two columns are named \"id\""),
        (codec, "cannot be packed with gzip; there are none, zstd"),
        (name, "cannot be the name of a field of Avro"),
    ] {
        let ran = run(&bench, &job(row_writer("out", folder.path("out"), format), Arc::default())).await;
        let text = &ran.step("write").unwrap().exit.description;
        assert!(text.contains(why), "{text}");
        assert_eq!(folder.names(), Vec::<String>::new());
    }
}
