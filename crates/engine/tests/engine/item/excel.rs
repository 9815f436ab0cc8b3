//! Reading spreadsheets that openpyxl has made.

use super::{Folder, all, check_every_restart, fatal, gzip, open, read, saved, zstd};
use serde::Deserialize;
use std::process::Command;
use tidemill_domain::item::{Row, Value};
use tidemill_domain::job::ExecutionContext;
use tidemill_engine::item::ExcelReader;
use tidemill_engine::item::reader::excel::EXCEL_BYTES_MAX;
use tidemill_engine::job::component::ItemReader;
use tidemill_testkit::skip;

/// The variable that names a Python with openpyxl.
const PYTHON: &str = "TIDEMILL_TEST_FORMATS_PYTHON";

/// Makes files with a program in Python that has a new book, and its first sheet.
fn make(folder: &Folder, program: &str) -> bool {
    let Some(python) = skip::require("formats", std::env::var_os(PYTHON)) else { return false };
    let program = format!(
        "from datetime import date, datetime, time, timedelta\nfrom openpyxl import Workbook\n\
         book = Workbook()\nsheet = book.active\n{program}"
    );
    let made = Command::new(python).arg("-c").arg(program).current_dir(folder.path("")).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    true
}

#[derive(Deserialize, PartialEq, Debug)]
struct Payment {
    id: u32,
    name: String,
    memo: Option<String>,
}

const PAYMENTS: &str = "
for name, rows in [('a', 3), ('b', 0), ('c', 2)]:
    book = Workbook()
    book.active.append(['id', 'name', 'memo'])
    for number in range(rows):
        book.active.append([number, f'이름 {number}', None])
        book.active.append([None, None, None])
    book.save(f'{name}.xlsx')
";

#[tokio::test]
async fn a_restart_at_any_row_reads_the_rest() {
    let folder = Folder::new();
    if !make(&folder, PAYMENTS) {
        return;
    }
    let path = folder.path("a.xlsx");
    let payment = |id| Ok(Payment { id, name: format!("이름 {id}"), memo: None });

    let one = check_every_restart(|| ExcelReader::<Payment>::new("in", &path)).await;
    let pattern = folder.pattern("*.xlsx");
    let many = check_every_restart(|| ExcelReader::<Payment>::pattern("in", &pattern)).await;
    let book = std::fs::read(&path).unwrap();
    for packed in [folder.put("gzip", gzip(&book)), folder.put("zstd", zstd(&book))] {
        assert_eq!(all(ExcelReader::<Payment>::new("in", packed)).await, one);
    }

    assert_eq!(one, [payment(0), payment(1), payment(2)]);
    assert_eq!(many, [payment(0), payment(1), payment(2), payment(0), payment(1)]);
    let opened = open(ExcelReader::rows("in", &path), &ExecutionContext::new()).await.unwrap();
    assert_eq!(opened.total(), Some(3));
}

#[tokio::test]
async fn cells_keep_their_types() {
    let folder = Folder::new();
    let program = "
sheet.title = 'empty'
sheet = book.create_sheet('all')
sheet['B3'] = 'whole'
for column, name in zip('CDEFGHIJ', ['half', 'text', 'yes', 'day', 'moment', 'time', 'long', 'none']):
    sheet[f'{column}3'] = name
values = [12, 0.5, '007', True, date(2026, 11, 15), datetime(2026, 11, 15, 23, 59, 1), time(9, 30), timedelta(hours=26, minutes=5)]
for column, value in zip('BCDEFGHI', values):
    sheet[f'{column}4'] = value
sheet['I4'].number_format = '[h]:mm:ss'
sheet['B6'] = 13
book.save('in.xlsx')
";
    if !make(&folder, program) {
        return;
    }

    let seen = all(ExcelReader::rows("in", folder.path("in.xlsx")).sheet("all")).await;

    let first = seen[0].as_ref().unwrap();
    let names = ["whole", "half", "text", "yes", "day", "moment", "time", "long", "none"];
    assert_eq!(first.columns().as_ref(), names);
    let expected = [
        12.into(),
        0.5.into(),
        "007".into(),
        true.into(),
        Value::Date("2026-11-15".parse().unwrap()),
        Value::DateTime("2026-11-15T23:59:01".parse().unwrap()),
        Value::Time("09:30:00".parse().unwrap()),
        "26:05:00".into(),
        Value::Null,
    ];
    assert_eq!(first.values(), expected);
    assert_eq!((seen.len(), seen[1].as_ref().unwrap().value("whole")), (2, Ok(&Value::Long(13))));
}

#[tokio::test]
async fn cells_of_opendocument_have_the_same_values() {
    let folder = Folder::new();
    let program = r#"
from zipfile import ZipFile
names = ''.join(f'<table:table-cell office:value-type="string"><text:p>{name}</text:p></table:table-cell>'
                for name in ['whole', 'half', 'text', 'yes', 'day', 'moment', 'long'])
values = ''.join(f'<table:table-cell office:value-type="{kind}" office:{name}="{value}"/>' for kind, name, value in [
    ('float', 'value', '12'), ('float', 'value', '0.5'), ('string', 'string-value', '007'), ('boolean', 'boolean-value', 'true'),
    ('date', 'date-value', '2026-11-15'), ('date', 'date-value', '2026-11-15T23:59:01'), ('time', 'time-value', 'PT26H05M00S')])
urn = 'urn:oasis:names:tc:opendocument:xmlns'
with ZipFile('in.ods', 'w') as file:
    file.writestr('mimetype', 'application/vnd.oasis.opendocument.spreadsheet')
    file.writestr('META-INF/manifest.xml', f'<manifest:manifest xmlns:manifest="{urn}:manifest:1.0"/>')
    file.writestr('content.xml', f'<office:document-content xmlns:office="{urn}:office:1.0" xmlns:table="{urn}:table:1.0" '
        f'xmlns:text="{urn}:text:1.0"><office:body><office:spreadsheet><table:table table:name="all">'
        f'<table:table-row>{names}</table:table-row><table:table-row>{values}</table:table-row>'
        f'</table:table></office:spreadsheet></office:body></office:document-content>')
"#;
    if !make(&folder, program) {
        return;
    }

    let seen = all(ExcelReader::rows("in", folder.path("in.ods"))).await;

    let expected = [
        12.into(),
        0.5.into(),
        "007".into(),
        true.into(),
        Value::Date("2026-11-15".parse().unwrap()),
        Value::DateTime("2026-11-15T23:59:01".parse().unwrap()),
        "26:05:00".into(),
    ];
    assert_eq!(seen[0].as_ref().unwrap().values(), expected);
    assert_eq!(seen.len(), 1);
}

#[tokio::test]
async fn the_header_can_be_elsewhere_or_nowhere() {
    let folder = Folder::new();
    let program = "
for row in [['Report', None], ['id', 'id'], [1, 2]]:
    sheet.append(row)
book.save('in.xlsx')
";
    if !make(&folder, program) {
        return;
    }
    let reader = || ExcelReader::rows("in", folder.path("in.xlsx"));
    let ids = |seen: super::Seen<Row>| -> Vec<Value> {
        seen.into_iter().map(|row| row.unwrap().values()[0].clone()).collect()
    };

    let twice = fatal(open(reader().header_row(2), &ExecutionContext::new()).await);
    let named = ids(all(reader().header_row(2).columns(["a", "b"])).await);
    let nowhere = ids(all(reader().columns(["a", "b"])).await);

    assert!(twice.contains("columns 1 and 2 are both named \"id\""), "{twice}");
    assert_eq!(named, [Value::Long(1)]);
    assert_eq!(nowhere, ["Report".into(), "id".into(), Value::Long(1)]);
}

#[tokio::test]
async fn an_error_in_a_cell_is_told_and_the_next_row_is_read() {
    let folder = Folder::new();
    let program = "
sheet.append(['id', 'name'])
sheet.append([1, 'a'])
sheet.append([2, '#DIV/0!'])
sheet['B3'].data_type = 'e'
sheet.append(['x', 'c'])
sheet.append([4, 'd'])
book.save('in.xlsx')
";
    if !make(&folder, program) {
        return;
    }
    let path = folder.path("in.xlsx");

    let seen = check_every_restart(|| ExcelReader::<Payment>::new("in", &path)).await;

    let place = path.display();
    assert_eq!(seen[1], Err(format!("cell B3: it has the error #DIV/0! ({place} row 3)")));
    assert!(seen[2].as_ref().unwrap_err().ends_with("row 4)"), "{seen:?}");
    assert_eq!(seen[3], Ok(Payment { id: 4, name: "d".to_owned(), memo: None }));
}

#[tokio::test]
async fn a_file_that_is_no_spreadsheet_has_no_such_sheet_or_is_too_large_is_refused() {
    let folder = Folder::new();
    let program = "
sheet.title = 'one'
book.create_sheet('two')
book.save('in.xlsx')
data = bytearray(open('in.xlsx', 'rb').read())
at = data.index(b'PK\\x01\\x02') + 24
data[at:at + 4] = (600 * 1024 * 1024).to_bytes(4, 'little')
open('bomb.xlsx', 'wb').write(data)
";
    if !make(&folder, program) {
        return;
    }
    let refusal = async |reader: ExcelReader<Row>| fatal(open(reader, &ExecutionContext::new()).await);
    let large = folder.put("large.xlsx", "");
    std::fs::File::options().write(true).open(&large).unwrap().set_len(EXCEL_BYTES_MAX + 1).unwrap();

    let text = refusal(ExcelReader::rows("in", folder.put("text.xlsx", "id,name\n"))).await;
    let sheet = refusal(ExcelReader::rows("in", folder.path("in.xlsx")).sheet("three")).await;
    let empty = refusal(ExcelReader::rows("in", folder.path("in.xlsx"))).await;
    let large = refusal(ExcelReader::rows("in", large)).await;
    let packed = vec![0; usize::try_from(EXCEL_BYTES_MAX).unwrap() + 1];
    let packed = refusal(ExcelReader::rows("in", folder.put("packed.xlsx.gz", gzip(packed)))).await;
    let bomb = refusal(ExcelReader::rows("in", folder.path("bomb.xlsx"))).await;

    assert!(text.contains("it is not a spreadsheet"), "{text}");
    assert!(sheet.contains("there is no sheet \"three\"; there are one, two"), "{sheet}");
    assert!(empty.contains("no names of columns"), "{empty}");
    assert!(large.contains("save the sheet as CSV"), "{large}");
    assert!(packed.contains("it has more than 67108864 bytes"), "{packed}");
    assert!(bomb.contains("it unpacks to"), "{bomb}");
}

#[tokio::test]
async fn a_position_is_saved_by_row() {
    let folder = Folder::new();
    if !make(&folder, PAYMENTS) {
        return;
    }
    let mut reader =
        open(ExcelReader::rows("in", folder.path("a.xlsx")), &ExecutionContext::new()).await.unwrap();

    read(&mut reader, 2).await;

    assert_eq!(saved(&mut reader).get_long("in.row"), Some(3), "one of them is blank");
    assert_eq!(reader.place().unwrap().number, 4, "with the header");

    let shorter = ExcelReader::rows("in", folder.path("b.xlsx"));
    let refused = fatal(open(shorter, &saved(&mut reader)).await);
    assert!(refused.contains("it has only 0 rows, and the last run stopped in a later one"), "{refused}");
}
