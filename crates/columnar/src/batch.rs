//! From rows to record batches.

use arrow_array::types::{Float32Type, Int32Type};
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array,
    PrimitiveArray, RecordBatch, StringArray, Time64MicrosecondArray, TimestampMicrosecondArray,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};
use jiff::civil::{Date, DateTime, Time};
use std::borrow::Cow;
use std::sync::Arc;
use tidemill_domain::item::{FieldType, Row, Value};

/// The columns of a writer. One without a type is text.
pub(crate) type Columns = [(String, Option<FieldType>)];

/// Every column may be null.
pub(crate) fn schema(columns: &Columns) -> SchemaRef {
    let fields = columns.iter().map(|(name, kind)| Field::new(name, data_type(*kind), true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Fails on the first value that does not fit, and names its column.
pub(crate) fn batch(columns: &Columns, rows: &[Cow<'_, Row>]) -> Result<RecordBatch, String> {
    let arrays = columns.iter().map(|(name, kind)| {
        let kind = kind.unwrap_or(FieldType::Text);
        let values = rows.iter().map(|row| {
            let value = row.value(name).map_err(|error| error.to_string())?;
            kind.fit(value).map_err(|fault| format!("column {name:?} {fault}"))
        });
        array(kind, values.collect::<Result<_, _>>()?).map_err(|error| error.to_string())
    });
    let arrays = arrays.collect::<Result<Vec<_>, String>>()?;
    RecordBatch::try_new(schema(columns), arrays).map_err(|error| error.to_string())
}

fn data_type(kind: Option<FieldType>) -> DataType {
    match kind.unwrap_or(FieldType::Text) {
        FieldType::Bool => DataType::Boolean,
        FieldType::Int => DataType::Int32,
        FieldType::Long => DataType::Int64,
        FieldType::Float => DataType::Float32,
        FieldType::Double => DataType::Float64,
        FieldType::Decimal { digits, scale } => DataType::Decimal128(digits, scale.cast_signed()),
        FieldType::Text | FieldType::Uuid | FieldType::Json => DataType::Utf8,
        FieldType::Bytes => DataType::Binary,
        FieldType::Date => DataType::Date32,
        FieldType::Time => DataType::Time64(TimeUnit::Microsecond),
        FieldType::DateTime => DataType::Timestamp(TimeUnit::Microsecond, None),
        FieldType::Instant => DataType::Timestamp(TimeUnit::Microsecond, Some(Arc::from("UTC"))),
    }
}

/// The values fit the type, or are null.
#[expect(clippy::cast_possible_truncation, reason = "the numbers fit, and the author asked for float")]
fn array(kind: FieldType, values: Vec<Value>) -> Result<ArrayRef, ArrowError> {
    macro_rules! array {
        ($type:ty, $pattern:pat => $cell:expr) => {
            values
                .into_iter()
                .map(|value| if let $pattern = value { Some($cell) } else { None })
                .collect::<$type>()
        };
    }
    Ok(match kind {
        FieldType::Bool => Arc::new(array!(BooleanArray, Value::Bool(value) => value)),
        FieldType::Int => Arc::new(array!(PrimitiveArray<Int32Type>, Value::Long(value) => value as i32)),
        FieldType::Long => Arc::new(array!(Int64Array, Value::Long(value) => value)),
        FieldType::Float => {
            Arc::new(array!(PrimitiveArray<Float32Type>, Value::Double(value) => value as f32))
        }
        FieldType::Double => Arc::new(array!(Float64Array, Value::Double(value) => value)),
        FieldType::Decimal { digits, scale } => {
            let array = array!(Decimal128Array, Value::Decimal(value) => {
                value.as_str().replace('.', "").parse::<i128>().expect("it has at most 38 digits")
            });
            Arc::new(array.with_precision_and_scale(digits, scale.cast_signed())?)
        }
        FieldType::Text | FieldType::Uuid | FieldType::Json => Arc::new(
            array!(StringArray, value @ (Value::Text(_) | Value::Uuid(_) | Value::Json(_)) => value.to_string()),
        ),
        FieldType::Bytes => Arc::new(array!(BinaryArray, Value::Bytes(value) => value)),
        FieldType::Date => Arc::new(array!(Date32Array, Value::Date(value) => {
            (micros(value.to_datetime(Time::midnight())) / 86_400_000_000) as i32
        })),
        FieldType::Time => Arc::new(array!(Time64MicrosecondArray, Value::Time(value) => {
            micros(Date::constant(1970, 1, 1).to_datetime(value))
        })),
        FieldType::DateTime => {
            Arc::new(array!(TimestampMicrosecondArray, Value::DateTime(value) => micros(value)))
        }
        FieldType::Instant => {
            let array = array!(TimestampMicrosecondArray, Value::Instant(value) => value.as_micros());
            Arc::new(array.with_timezone("UTC"))
        }
    })
}

/// After 1970 began. A civil time, whose year has four digits, has fewer than 2^63.
#[expect(clippy::cast_possible_truncation, reason = "see above")]
fn micros(moment: DateTime) -> i64 {
    moment.duration_since(DateTime::constant(1970, 1, 1, 0, 0, 0, 0)).as_micros() as i64
}
