//! From the cells of record batches to values.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, downcast_dictionary_array, downcast_integer_array, downcast_temporal_array};
use arrow_schema::{DataType, Field, TimeUnit};
use jiff::SignedDuration;
use jiff::civil::DateTime;
use serde_json::{Map, Value as Json};
use tidemill_domain::item::Value;
use tidemill_domain::time::Timestamp;
use uuid::Uuid;

/// Whether the reader knows the type.
pub(crate) fn is_known(kind: &DataType) -> bool {
    match kind {
        DataType::Duration(_)
        | DataType::Interval(_)
        | DataType::Union(..)
        | DataType::RunEndEncoded(..)
        | DataType::ListView(_)
        | DataType::LargeListView(_) => false,
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => is_known(field.data_type()),
        DataType::Struct(fields) => fields.iter().all(|field| is_known(field.data_type())),
        DataType::Dictionary(_, value) => is_known(value),
        _ => true,
    }
}

/// A cell as a value, or what is wrong with it.
pub(crate) fn value(field: &Field, array: &dyn Array, index: usize) -> Result<Value, String> {
    if array.is_null(index) {
        return Ok(Value::Null);
    }
    macro_rules! decimal_of {
        ($type:ty) => {
            decimal(&array.as_primitive::<$type>().value_as_string(index))?
        };
    }
    Ok(match array.data_type() {
        DataType::Boolean => array.as_boolean().value(index).into(),
        kind if kind.is_integer() => {
            let number = downcast_integer_array!(
                array => i128::from(array.value(index)),
                kind => return Err(unknown(kind))
            );
            i64::try_from(number).map_or_else(|_| decimal(&number.to_string()), |number| Ok(number.into()))?
        }
        DataType::Float16 => array.as_primitive::<Float16Type>().value(index).to_f64().into(),
        DataType::Float32 => array.as_primitive::<Float32Type>().value(index).into(),
        DataType::Float64 => array.as_primitive::<Float64Type>().value(index).into(),
        DataType::Decimal32(..) => decimal_of!(Decimal32Type),
        DataType::Decimal64(..) => decimal_of!(Decimal64Type),
        DataType::Decimal128(..) => decimal_of!(Decimal128Type),
        DataType::Decimal256(..) => decimal_of!(Decimal256Type),
        DataType::Utf8 => array.as_string::<i32>().value(index).into(),
        DataType::LargeUtf8 => array.as_string::<i64>().value(index).into(),
        DataType::Utf8View => array.as_string_view().value(index).into(),
        DataType::Binary => array.as_binary::<i32>().value(index).into(),
        DataType::LargeBinary => array.as_binary::<i64>().value(index).into(),
        DataType::BinaryView => array.as_binary_view().value(index).into(),
        DataType::FixedSizeBinary(_) => {
            let bytes = array.as_fixed_size_binary().value(index);
            // Arrow and Parquet say it in one way, Avro in the other.
            let is_uuid = field.extension_type_name() == Some("arrow.uuid")
                || field.metadata().get("logicalType").is_some_and(|kind| kind == "uuid");
            Uuid::from_slice(bytes).ok().filter(|_| is_uuid).map_or_else(|| bytes.into(), Into::into)
        }
        kind if kind.is_temporal() => {
            let ticks = downcast_temporal_array!(
                array => i128::from(array.value(index)),
                kind => return Err(unknown(kind))
            );
            temporal(kind, ticks).ok_or("is beyond all years")?
        }
        DataType::List(item) => list(item, &array.as_list::<i32>().value(index))?,
        DataType::LargeList(item) => list(item, &array.as_list::<i64>().value(index))?,
        DataType::FixedSizeList(item, _) => list(item, &array.as_fixed_size_list().value(index))?,
        DataType::Struct(fields) => {
            let mut object = Map::new();
            for (field, column) in fields.iter().zip(array.as_struct().columns()) {
                object.insert(field.name().clone(), value(field, column, index)?.to_json());
            }
            Value::Json(Json::Object(object))
        }
        DataType::Map(entry, _) => {
            let entries = array.as_map().value(index);
            let DataType::Struct(fields) = entry.data_type() else { return Err(unknown(entry.data_type())) };
            let mut object = Map::new();
            for at in 0..entries.len() {
                let key = value(&fields[0], entries.column(0), at)?.to_string();
                object.insert(key, value(&fields[1], entries.column(1), at)?.to_json());
            }
            Value::Json(Json::Object(object))
        }
        DataType::Dictionary(..) => downcast_dictionary_array!(
            array => {
                let key = array.key(index).ok_or("has no entry of its dictionary")?;
                value(field, array.values(), key)?
            }
            kind => return Err(unknown(kind))
        ),
        DataType::Null => Value::Null,
        kind => return Err(unknown(kind)),
    })
}

fn list(field: &Field, items: &dyn Array) -> Result<Value, String> {
    let items = (0..items.len()).map(|index| Ok(value(field, items, index)?.to_json()));
    Ok(Value::Json(Json::Array(items.collect::<Result<_, String>>()?)))
}

fn decimal(text: &str) -> Result<Value, String> {
    text.parse().map(Value::Decimal).map_err(|_| "is not a decimal number".to_owned())
}

/// So many units of the type after 1970 or the day began. An instant is exact to the microsecond.
fn temporal(kind: &DataType, ticks: i128) -> Option<Value> {
    let unit_nanos = match kind {
        DataType::Date32 => 86_400_000_000_000,
        DataType::Time32(TimeUnit::Second) | DataType::Timestamp(TimeUnit::Second, _) => 1_000_000_000,
        DataType::Date64
        | DataType::Time32(TimeUnit::Millisecond)
        | DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000_000,
        DataType::Time64(TimeUnit::Microsecond) | DataType::Timestamp(TimeUnit::Microsecond, _) => 1_000,
        _ => 1,
    };
    let nanos = ticks.checked_mul(unit_nanos)?;
    if let DataType::Timestamp(_, Some(_)) = kind {
        return i64::try_from(nanos.div_euclid(1000))
            .ok()
            .map(|micros| Timestamp::from_micros(micros).into());
    }
    let since = SignedDuration::try_from_nanos_i128(nanos)?;
    let moment = DateTime::constant(1970, 1, 1, 0, 0, 0, 0).checked_add(since).ok()?;
    Some(match kind {
        DataType::Date32 | DataType::Date64 => moment.date().into(),
        DataType::Time32(_) | DataType::Time64(_) => moment.time().into(),
        _ => moment.into(),
    })
}

fn unknown(kind: &DataType) -> String {
    format!("has the type {kind}, which is not known")
}
