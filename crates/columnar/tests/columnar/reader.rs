//! Reading what others have written, from any row.

use crate::{FILES, Folder, NUMBERS, fatal};
use std::io;
use tidemill_columnar::{Columnar, ColumnarReader, row_groups};
use tidemill_domain::item::{ColumnarFormat, ColumnarKind, FieldType, Row, Value};
use tidemill_domain::job::ExecutionContext;
use tidemill_engine::item::reader::table::TableFormat;
use tidemill_engine::item::{ReadAt, Source};
use tidemill_engine::job::component::{ItemReader, ItemStream};

async fn open(mut reader: ColumnarReader<Row>, saved: &ExecutionContext) -> ColumnarReader<Row> {
    reader.open(saved).await.unwrap();
    reader
}

/// Reads so many rows, or all.
async fn read(reader: &mut ColumnarReader<Row>, count: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    while rows.len() < count
        && let Some(row) = reader.read().await.unwrap()
    {
        rows.push(row);
    }
    rows
}

/// What a reader has saved that stopped after so many rows.
async fn stopped(reader: ColumnarReader<Row>, rows: usize) -> ExecutionContext {
    let mut reader = open(reader, &ExecutionContext::new()).await;
    assert_eq!(read(&mut reader, rows).await.len(), rows);
    let mut context = ExecutionContext::new();
    reader.update(&mut context).unwrap();
    ExecutionContext::from_text(&context.to_text().unwrap()).unwrap()
}

fn ids(rows: &[Row]) -> Vec<i64> {
    rows.iter().map(|row| row.get("id").unwrap()).collect()
}

#[tokio::test]
async fn a_restart_reads_on_with_the_next_row() {
    let folder = Folder::new();
    if folder.python(NUMBERS).is_none() {
        return;
    }
    for file in FILES {
        let reader = || ColumnarReader::rows("in", folder.path(file));
        for stop in [0, 1, 999, 1000, 1001, 1024, 2499, 2500] {
            let mut first = open(reader(), &ExecutionContext::new()).await;
            let before = read(&mut first, stop).await;
            let mut context = ExecutionContext::new();
            first.update(&mut context).unwrap();
            let saved = ExecutionContext::from_text(&context.to_text().unwrap()).unwrap();

            let mut second = open(reader(), &saved).await;
            let after = read(&mut second, usize::MAX).await;

            let all: Vec<i64> = [ids(&before), ids(&after)].concat();
            assert_eq!(all, (0..2500).collect::<Vec<_>>(), "{file} after {stop}");
            if let Some(row) = after.first() {
                assert_eq!(row.get::<String>("name").unwrap(), format!("이름 {stop}"));
            }
        }
    }
    let total =
        open(ColumnarReader::rows("in", folder.path("a.parquet")), &ExecutionContext::new()).await.total();
    assert_eq!(total, Some(2500));
}

#[tokio::test]
async fn a_file_that_was_cut_off_is_never_read_as_whole() {
    let folder = Folder::new();
    if folder.python(NUMBERS).is_none() {
        return;
    }
    for file in FILES {
        let whole = std::fs::read(folder.path(file)).unwrap();
        let path = folder.path("cut");
        for cut in (1..20).chain((20..whole.len()).step_by(997)) {
            std::fs::write(&path, &whole[..whole.len() - cut]).unwrap();
            let mut reader = ColumnarReader::rows("in", &path);
            let mut ended = reader.open(&ExecutionContext::new()).await.map(|()| false);
            while matches!(ended, Ok(false)) {
                ended = reader.read().await.map(|row| row.is_none());
            }
            assert!(ended.is_err(), "{file} without its last {cut} bytes");
        }
    }
}

#[tokio::test]
async fn a_damage_that_a_library_panics_on_is_an_error() {
    let folder = Folder::new();
    let program = "
schema = {'type': 'record', 'name': 'r', 'fields': [{'name': 'id', 'type': 'long'}]}
with open('in.avro', 'wb') as f: fastavro.writer(f, schema, [], codec='snappy')
";
    if folder.python(program).is_none() {
        return;
    }
    // A block of one row in two bytes, which have no room for their checksum.
    let mut bytes = std::fs::read(folder.path("in.avro")).unwrap();
    let marker = bytes[bytes.len() - 16..].to_vec();
    bytes.extend([2, 4, 0, 0].into_iter().chain(marker));
    std::fs::write(folder.path("in.avro"), bytes).unwrap();

    let mut reader = open(ColumnarReader::rows("in", folder.path("in.avro")), &ExecutionContext::new()).await;

    let text = fatal(reader.read().await);
    assert!(text.contains("is damaged or cannot be read"), "{text}");
}

#[tokio::test]
async fn a_file_that_ends_before_the_saved_row_is_refused() {
    let folder = Folder::new();
    if folder.python(NUMBERS).is_none() {
        return;
    }
    let mut beyond = ExecutionContext::new();
    beyond.put("in.row", 2501);
    for file in FILES {
        let mut reader = ColumnarReader::rows("in", folder.path(file));
        let refused = match reader.open(&beyond).await {
            Ok(()) => reader.read().await.map(drop),
            refused => refused,
        };
        let text = fatal(refused);
        assert!(text.contains("it has only 2500 rows, and the last run stopped in a later one"), "{text}");
    }
}

#[tokio::test]
async fn files_of_a_pattern_are_read_one_after_the_other() {
    let folder = Folder::new();
    if folder.python(NUMBERS).is_none() {
        return;
    }
    let pattern = folder.path("*.avro").display().to_string();

    let reader = || ColumnarReader::rows_pattern("in", &pattern);
    let whole = ids(&read(&mut open(reader(), &ExecutionContext::new()).await, usize::MAX).await);

    assert_eq!(whole.len(), 10_000);
    for stop in [0, 2499, 2500, 2501, 7500, 9999, 10_000] {
        let saved = stopped(reader(), stop).await;
        let rest = read(&mut open(reader(), &saved).await, usize::MAX).await;
        assert_eq!(ids(&rest), whole[stop..], "after {stop}");
    }
}

#[tokio::test]
async fn row_groups_are_the_parts_of_a_file() {
    let folder = Folder::new();
    if folder.python(NUMBERS).is_none() {
        return;
    }
    for file in ["a.parquet", "a.arrow"] {
        let path = folder.path(file);

        let partitions = row_groups(path.to_str().unwrap(), None).unwrap();

        let mut all = Vec::new();
        for (number, partition) in partitions.iter().enumerate() {
            let group = usize::try_from(partition.context().get_long("row_group").unwrap()).unwrap();
            assert_eq!((group, partition.context().get_text("file")), (number, path.to_str()));
            let reader = || ColumnarReader::rows("in", &path).format(Columnar::default().group(group));
            let mut first = open(reader(), &ExecutionContext::new()).await;
            all.extend(ids(&read(&mut first, 300).await));
            let mut context = ExecutionContext::new();
            first.update(&mut context).unwrap();
            all.extend(ids(&read(&mut open(reader(), &context).await, usize::MAX).await));
        }
        assert_eq!((partitions.len(), all), (3, (0..2500).collect()), "{file}");
    }
    let last = ColumnarReader::rows("in", folder.path("a.parquet")).format(Columnar::default().group(2));
    assert_eq!(open(last, &ExecutionContext::new()).await.total(), Some(500));
    for file in ["null.avro", "stream.arrow"] {
        assert!(row_groups(folder.path(file).to_str().unwrap(), None).is_err(), "{file}");
    }
}

/// An object of version 2.
struct Replaced(Vec<u8>);

impl ReadAt for Replaced {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn version(&self) -> Option<&str> {
        Some("2")
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let from = usize::try_from(offset).unwrap().min(self.0.len());
        let got = buffer.len().min(self.0.len() - from);
        buffer[..got].copy_from_slice(&self.0[from..from + got]);
        Ok(got)
    }
}

#[test]
fn row_groups_of_an_object_that_was_replaced_are_refused() {
    let folder = Folder::new();
    if folder.python(NUMBERS).is_none() {
        return;
    }
    let bytes = std::fs::read(folder.path("a.parquet")).unwrap();
    let open = |version: &str| {
        let group = Columnar::default().group(1).version(version);
        group.open(Source::new(Replaced(bytes.clone())), 0).map(drop)
    };

    assert_eq!(open("2"), Ok(()));
    assert!(open("1").unwrap_err().contains("the object was replaced after the step was divided"));
}

/// Values of all types, in three formats. Avro lacks some types.
const TYPES: &str = "
columns = {
    'bool': pa.array([True, None]),
    'small': pa.array([-7, None], pa.int8()),
    'large': pa.array([2**64 - 1, None], pa.uint64()),
    'float': pa.array([0.5, None], pa.float32()),
    'decimal': pa.array([Decimal('-12.50'), None], pa.decimal128(18, 2)),
    'wide': pa.array([Decimal('1' * 50), None], pa.decimal256(60, 0)),
    'text': pa.array(['가', None], pa.large_string()),
    'bytes': pa.array([b'\\x00\\xff', None], pa.binary()),
    'date': pa.array([date(1969, 12, 31), None]),
    'time': pa.array([time(23, 59, 59, 1), None], pa.time64('us')),
    'local': pa.array([datetime(2026, 11, 18, 1, 2, 3, 4), None], pa.timestamp('us')),
    'instant': pa.array([datetime(2026, 11, 18, 1, 2, 3, tzinfo=timezone.utc), None], pa.timestamp('ms', 'Asia/Seoul')),
    'word': pa.array(['x', None]).dictionary_encode(),
    'list': pa.array([[1, None], None], pa.list_(pa.int32())),
    'map': pa.array([[('k', 1)], None], pa.map_(pa.string(), pa.int32())),
    'struct': pa.array([{'a': 1, 'b': [date(2026, 1, 2)]}, None]),
}
table = pa.table(columns)
pq.write_table(table, 'types.parquet')
with ipc.new_file('types.arrow', table.schema) as f:
    f.write_table(table)
def logical(kind, name, **more): return ['null', {'type': kind, 'logicalType': name, **more}]
fields = {
    'bool': ['null', 'boolean'], 'small': ['null', 'int'], 'float': ['null', 'float'],
    'decimal': logical('bytes', 'decimal', precision=18, scale=2), 'text': ['null', 'string'], 'bytes': ['null', 'bytes'],
    'date': logical('int', 'date'), 'time': logical('long', 'time-micros'),
    'local': logical('long', 'local-timestamp-micros'), 'instant': logical('long', 'timestamp-millis'),
    'word': ['null', {'type': 'enum', 'name': 'w', 'symbols': ['y', 'x']}],
    'list': ['null', {'type': 'array', 'items': ['null', 'int']}], 'map': ['null', {'type': 'map', 'values': 'int'}],
    'struct': ['null', {'type': 'record', 'name': 's', 'fields': [{'name': 'a', 'type': 'long'},
        {'name': 'b', 'type': {'type': 'array', 'items': {'type': 'int', 'logicalType': 'date'}}}]}],
    'uuid': logical('string', 'uuid'),
}
row = {name: column[0].as_py() for name, column in columns.items() if name in fields}
row.update({'map': {'k': 1}, 'uuid': str(uuid.UUID(int=7))})
schema = {'type': 'record', 'name': 'r', 'fields': [{'name': name, 'type': kind} for name, kind in fields.items()]}
with open('types.avro', 'wb') as f:
    fastavro.writer(f, schema, [row, {name: None for name in fields}])
";

#[tokio::test]
async fn values_keep_their_types() {
    let folder = Folder::new();
    if folder.python(TYPES).is_none() {
        return;
    }
    let expected = [
        ("bool", "bool", "true"),
        ("small", "long", "-7"),
        ("large", "decimal", "18446744073709551615"),
        ("float", "double", "0.5"),
        ("decimal", "decimal", "-12.50"),
        ("wide", "decimal", "11111111111111111111111111111111111111111111111111"),
        ("text", "text", "가"),
        ("bytes", "bytes", "00ff"),
        ("date", "date", "1969-12-31"),
        ("time", "time", "23:59:59.000001"),
        ("local", "datetime", "2026-11-18T01:02:03.000004"),
        ("instant", "instant", "2026-11-18T01:02:03.000000Z"),
        ("word", "text", "x"),
        ("list", "json", "[1,null]"),
        ("map", "json", r#"{"k":1}"#),
        ("struct", "json", r#"{"a":1,"b":["2026-01-02"]}"#),
        ("uuid", "uuid", "00000000-0000-0000-0000-000000000007"),
    ];
    for (file, least) in [("types.parquet", 16), ("types.arrow", 16), ("types.avro", 15)] {
        let mut reader = open(ColumnarReader::rows("in", folder.path(file)), &ExecutionContext::new()).await;
        let rows = read(&mut reader, usize::MAX).await;

        assert_eq!((rows.len(), rows[0].columns().len()), (2, least), "{file}");
        for (name, word, text) in expected {
            let Ok(value) = rows[0].value(name) else { continue };
            assert_eq!((value.type_word(), value.to_string().as_str()), (word, text), "{name} of {file}");
        }
        assert!(rows[1].values().iter().all(Value::is_null), "{file}: {:?}", rows[1]);
    }
}

#[tokio::test]
async fn columns_are_chosen_and_their_types_checked() {
    let folder = Folder::new();
    if folder.python(NUMBERS).is_none() {
        return;
    }
    for file in ["a.parquet", "a.arrow", "null.avro"] {
        let reader = |columns: [(&str, Option<FieldType>); 2]| {
            let chosen =
                columns.into_iter().fold(Columnar::default(), |all, (name, kind)| all.column(name, kind));
            ColumnarReader::rows("in", folder.path(file)).format(chosen)
        };

        let chosen = [("name", None), ("id", Some(FieldType::Text))];
        let row = read(&mut open(reader(chosen), &ExecutionContext::new()).await, 1).await.remove(0);
        assert_eq!(row.values(), [Value::from("이름 0"), Value::from("0")]);

        let mut wrong =
            open(reader([("id", None), ("name", Some(FieldType::Long))]), &ExecutionContext::new()).await;
        let error = wrong.read().await.unwrap_err();
        assert!(
            error.text().contains("column \"name\" is text and does not fit into long"),
            "{}",
            error.text()
        );
        assert!(error.origin().unwrap().place.ends_with(&format!("{file} row 1")));

        let missing = reader([("id", None), ("nme", None)]).open(&ExecutionContext::new()).await;
        assert!(fatal(missing).contains("no column \"nme\"; it has"), "{file}");
    }
}

#[tokio::test]
async fn two_columns_of_one_name_are_refused_if_they_are_read() {
    let folder = Folder::new();
    let program = "
table = pa.table([pa.array([1]), pa.array([2]), pa.array([3])], names=['a', 'b', 'a'])
pq.write_table(table, 'in.parquet')
with ipc.new_file('in.arrow', table.schema) as f:
    f.write_table(table)
";
    if folder.python(program).is_none() {
        return;
    }
    for file in ["in.parquet", "in.arrow"] {
        let mut all = ColumnarReader::rows("in", folder.path(file));
        let other = all.clone().format(Columnar::default().column("b", None));

        let refused = fatal(all.open(&ExecutionContext::new()).await);
        let rows = read(&mut open(other, &ExecutionContext::new()).await, 2).await;

        assert!(refused.contains("it has two columns \"a\""), "{refused}");
        assert_eq!((rows.len(), rows[0].get::<i64>("b").unwrap()), (1, 2));
    }
}

#[tokio::test]
async fn other_files_and_damaged_ones_are_refused() {
    let folder = Folder::new();
    if folder.python(NUMBERS).is_none() {
        return;
    }
    let refusal =
        async |reader: ColumnarReader<Row>| fatal(reader.clone().open(&ExecutionContext::new()).await);
    std::fs::write(folder.path("text.parquet"), "id,name\n").unwrap();
    let whole = std::fs::read(folder.path("a.parquet")).unwrap();
    std::fs::write(folder.path("half.parquet"), &whole[..whole.len() / 2]).unwrap();

    let text = refusal(ColumnarReader::rows("in", folder.path("text.parquet"))).await;
    let half = refusal(ColumnarReader::rows("in", folder.path("half.parquet"))).await;
    let other = ColumnarReader::rows("in", folder.path("a.arrow"))
        .format(Columnar::of(&ColumnarFormat::new(ColumnarKind::Parquet)));
    let other = refusal(other).await;

    let packed = [
        ("pq.write_table(pa.table({'id': [1]}), 'packed', compression='brotli')", "it is packed with brotli"),
        (
            "
schema = {'type': 'record', 'name': 'r', 'fields': [{'name': 'id', 'type': 'long'}]}
with open('packed', 'wb') as f: fastavro.writer(f, schema, [{'id': 1}], codec='bzip2')
",
            "it is packed with bzip2",
        ),
        (
            "import gzip\nwith gzip.open('packed', 'wb') as f: f.write(b'PAR1')",
            "it is packed as a whole with gzip or zstd",
        ),
    ];
    for (program, why) in packed {
        folder.python(program).unwrap();
        let mut reader = ColumnarReader::rows("in", folder.path("packed"));
        let refused = match reader.open(&ExecutionContext::new()).await {
            Ok(()) => reader.read().await.map(drop),
            refused => refused,
        };
        let text = fatal(refused);
        assert!(text.contains(why), "{text}");
    }

    assert!(text.contains("not a Parquet, Arrow or Avro file"), "{text}");
    assert!(half.contains("is damaged or cannot be read"), "{half}");
    assert!(other.contains("it is a file of arrow, not of parquet; read it with arrow"), "{other}");

    // The index is whole, and the data is not.
    for (file, from) in [("a.parquet", 100), ("null.avro", 10_000)] {
        let mut bytes = std::fs::read(folder.path(file)).unwrap();
        bytes[from..from + 2000].fill(0xaa);
        std::fs::write(folder.path(file), bytes).unwrap();
        let mut reader = open(ColumnarReader::rows("in", folder.path(file)), &ExecutionContext::new()).await;
        let failed = loop {
            match reader.read().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the damage of {file} was not found"),
                Err(error) => break error,
            }
        };
        let text = fatal(Err::<(), _>(failed));
        assert!(text.contains("is damaged or cannot be read"), "{text}");
    }
}
