//! What an object of Java is as a JSON value.

use super::graph::{Item, Object};
use super::write::Whole;
use crate::time::Timestamp;
use jiff::civil::{Date, Time};
use serde_json::{Map, Value};
use uuid::Uuid;

/// Values in one context; shared objects count each time.
pub(super) const VALUES_MAX: usize = 1_000_000;

/// Size of a `BigInteger` whose digits are computed.
const WHOLE_BYTES_MAX: usize = 1_024;

const MAPS: [&str; 6] = [
    "java.util.HashMap",
    "java.util.LinkedHashMap",
    "java.util.TreeMap",
    "java.util.concurrent.ConcurrentHashMap",
    "java.util.Hashtable",
    "java.util.Properties",
];

const LISTS: [&str; 6] = [
    "java.util.ArrayList",
    "java.util.LinkedList",
    "java.util.HashSet",
    "java.util.LinkedHashSet",
    "java.util.TreeSet",
    "java.util.Vector",
];

/// The entries of a map; `None` if it is none.
pub(super) fn entries(item: &Item) -> Option<Vec<(&Item, &Item)>> {
    let Item::Object(object) = item else { return None };
    let is_immutable = object.class.name == "java.util.CollSer" && object.bits("tag") == Some(3);
    if !is_immutable && !MAPS.contains(&object.class.name.as_str()) {
        return None;
    }
    let items: Vec<&Item> = object.items().collect();
    let ends_at_null = object.class.name == "java.util.concurrent.ConcurrentHashMap";
    let pairs = items.chunks_exact(2).map(|pair| (pair[0], pair[1]));
    Some(pairs.take_while(|(key, _)| !(ends_at_null && matches!(key, Item::Null))).collect())
}

/// The error is the class that has no JSON value.
pub(super) fn value(item: &Item, budget: &mut usize) -> Result<Value, String> {
    *budget = budget.checked_sub(1).ok_or("collection with too many values")?;
    Ok(match item {
        Item::Null => Value::Null,
        Item::Primitive(code, bits) => primitive(*code, *bits),
        Item::Text(text) | Item::Enum(_, text) => text.as_ref().into(),
        Item::Array(array) => {
            array.1.iter().map(|item| value(item, budget)).collect::<Result<Vec<_>, _>>()?.into()
        }
        Item::Object(object) => match entries(item) {
            Some(entries) => {
                let mut values = Map::new();
                for (key, inner) in entries {
                    let key = match value(key, budget)? {
                        Value::String(key) => key,
                        key => key.to_string(),
                    };
                    values.insert(key, value(inner, budget)?);
                }
                values.into()
            }
            None => match list(object) {
                Some(items) => {
                    items.into_iter().map(|item| value(item, budget)).collect::<Result<Vec<_>, _>>()?.into()
                }
                None => scalar(object).ok_or_else(|| class_of(object))?,
            },
        },
    })
}

/// Whether our value is written as exactly this object.
pub(super) fn is_plain(item: &Item, whole: Whole) -> bool {
    match item {
        Item::Null | Item::Text(_) => true,
        Item::Primitive(..) | Item::Enum(..) | Item::Array(_) => false,
        Item::Object(object) => {
            let is_int = whole == Whole::Int;
            match object.class.name.as_str() {
                "java.lang.Boolean" => true,
                "java.lang.Integer" => is_int,
                "java.lang.Long" => {
                    !is_int
                        || object.bits("value").is_some_and(|bits| i32::try_from(bits.cast_signed()).is_err())
                }
                "java.lang.Double" => {
                    object.bits("value").is_some_and(|bits| f64::from_bits(bits).is_finite())
                }
                "java.math.BigInteger" => {
                    scalar(object).is_some_and(|value| value.as_i64().is_none() && value.is_u64())
                }
                "java.util.ArrayList" => object.items().all(|item| is_plain(item, Whole::Long)),
                "java.util.LinkedHashMap" => {
                    object.bits("accessOrder") == Some(0)
                        && entries(item)
                            .into_iter()
                            .flatten()
                            .all(|(key, value)| matches!(key, Item::Text(_)) && is_plain(value, Whole::Long))
                }
                _ => false,
            }
        }
    }
}

fn list(object: &Object) -> Option<Vec<&Item>> {
    let name = object.class.name.as_str();
    if name == "java.util.Arrays$ArrayList" {
        let Item::Array(array) = object.field("a")? else { return None };
        return Some(array.1.iter().collect());
    }
    if name == "java.util.Vector" {
        let (Item::Array(array), length) = (object.field("elementData")?, object.bits("elementCount")?)
        else {
            return None;
        };
        return Some(array.1.iter().take(usize::try_from(length).ok()?).collect());
    }
    let is_immutable = name == "java.util.CollSer" && object.bits("tag") != Some(3);
    // A sorted set begins with what compares its items.
    let first = usize::from(name == "java.util.TreeSet");
    (is_immutable || LISTS.contains(&name)).then(|| object.items().skip(first).collect())
}

fn scalar(object: &Object) -> Option<Value> {
    let value = |code| object.bits("value").map(|bits| primitive(code, bits));
    match object.class.name.as_str() {
        "java.lang.Boolean" => value(b'Z'),
        "java.lang.Byte" => value(b'B'),
        "java.lang.Character" => value(b'C'),
        "java.lang.Short" => value(b'S'),
        "java.lang.Integer" => value(b'I'),
        "java.lang.Long" => value(b'J'),
        "java.lang.Float" => value(b'F'),
        "java.lang.Double" => value(b'D'),
        "java.math.BigInteger" => {
            let text = whole_text(object)?;
            let number = text.parse::<i64>().map(Value::from);
            Some(number.or_else(|_| text.parse::<u64>().map(Value::from)).unwrap_or_else(|_| text.into()))
        }
        "java.math.BigDecimal" => {
            let Item::Object(unscaled) = object.field("intVal")? else { return None };
            Some(decimal(&whole_text(unscaled)?, number::<4>(object.bits("scale")?)).into())
        }
        "java.util.UUID" => {
            let (high, low) = (object.bits("mostSigBits")?, object.bits("leastSigBits")?);
            Some(Uuid::from_u64_pair(high, low).to_string().into())
        }
        "java.util.Date" | "java.sql.Timestamp" | "java.sql.Date" => {
            let millis = i64::from_be_bytes(object.block().try_into().ok()?);
            // A timestamp has its fraction of a second apart.
            let fraction = object.bits("nanos").unwrap_or(0).cast_signed() / 1_000;
            Some(instant(millis.checked_mul(1_000)?.checked_add(fraction)?))
        }
        "java.time.Ser" => time(&object.block()),
        _ => None,
    }
}

fn primitive(code: u8, bits: u64) -> Value {
    match code {
        b'Z' => (bits != 0).into(),
        b'C' => char::from_u32(bits as u32).unwrap_or(char::REPLACEMENT_CHARACTER).to_string().into(),
        b'B' => number::<1>(bits).into(),
        b'S' => number::<2>(bits).into(),
        b'I' => number::<4>(bits).into(),
        b'F' => float(f64::from(f32::from_bits(bits as u32))),
        b'D' => float(f64::from_bits(bits)),
        _ => bits.cast_signed().into(),
    }
}

/// A signed number of so many bytes.
fn number<const BYTES: u32>(bits: u64) -> i64 {
    let unused = 64 - 8 * BYTES;
    (bits << unused).cast_signed() >> unused
}

/// JSON has neither infinity nor NaN.
fn float(number: f64) -> Value {
    serde_json::Number::from_f64(number).map_or_else(|| number.to_string().into(), Value::Number)
}

fn instant(micros: i64) -> Value {
    Timestamp::from_micros(micros).to_string().into()
}

/// Dates and times write a number for their class, then their parts.
fn time(block: &[u8]) -> Option<Value> {
    let (class, rest) = block.split_first()?;
    match class {
        2 => {
            let (seconds, nanos) = (rest.first_chunk()?, rest.get(8..)?.first_chunk()?);
            let micros = i64::from_be_bytes(*seconds).checked_mul(1_000_000)?;
            Some(instant(micros.checked_add(i64::from(i32::from_be_bytes(*nanos)) / 1_000)?))
        }
        3 => Some(date(rest)?.to_string().into()),
        4 => Some(clock(rest)?.to_string().into()),
        5 => Some(date(rest)?.to_datetime(clock(rest.get(6..)?)?).to_string().into()),
        _ => None,
    }
}

fn date(bytes: &[u8]) -> Option<Date> {
    let [year @ .., month, day] = bytes.first_chunk::<6>()?;
    Date::new(i32::from_be_bytes(*year).try_into().ok()?, month.cast_signed(), day.cast_signed()).ok()
}

/// The last part that is not zero is inverted, and the parts after it are missing.
fn clock(bytes: &[u8]) -> Option<Time> {
    let mut parts = [0_i8; 3];
    for (part, byte) in parts.iter_mut().zip(bytes) {
        let byte = byte.cast_signed();
        *part = if byte < 0 { !byte } else { byte };
        if byte < 0 {
            return Time::new(parts[0], parts[1], parts[2], 0).ok();
        }
    }
    let nanos = i32::from_be_bytes(*bytes.get(3..)?.first_chunk()?);
    Time::new(parts[0], parts[1], parts[2], nanos).ok()
}

/// The decimal digits of a `BigInteger`.
fn whole_text(object: &Object) -> Option<String> {
    let Item::Array(magnitude) = object.field("magnitude")? else { return None };
    if magnitude.1.len() > WHOLE_BYTES_MAX {
        return None;
    }
    let mut digits = vec![0_u8];
    for item in &magnitude.1 {
        let Item::Primitive(_, byte) = item else { return None };
        let mut carry = *byte as u32;
        for digit in &mut digits {
            carry += u32::from(*digit) << 8;
            *digit = (carry % 10) as u8;
            carry /= 10;
        }
        while carry > 0 {
            digits.push((carry % 10) as u8);
            carry /= 10;
        }
    }
    let sign = if number::<4>(object.bits("signum")?) < 0 { "-" } else { "" };
    let digits: String = digits.iter().rev().map(|digit| char::from(b'0' + digit)).collect();
    Some(format!("{sign}{digits}"))
}

fn decimal(unscaled: &str, scale: i64) -> String {
    let (sign, digits) = match unscaled.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", unscaled),
    };
    match usize::try_from(scale) {
        Ok(0) => unscaled.to_owned(),
        Ok(scale) if scale <= 1_000 => {
            let padded = format!("{digits:0>width$}", width = scale + 1);
            let (whole, fraction) = padded.split_at(padded.len() - scale);
            format!("{sign}{whole}.{fraction}")
        }
        _ => format!("{unscaled}E{}", -scale),
    }
}

/// Dates and times are written by a class that is not theirs.
fn class_of(object: &Object) -> String {
    let written = match (object.class.name.as_str(), object.block().first()) {
        ("java.time.Ser", Some(1)) => "java.time.Duration",
        ("java.time.Ser", Some(6)) => "java.time.ZonedDateTime",
        ("java.time.Ser", Some(10)) => "java.time.OffsetDateTime",
        (name, _) => name,
    };
    written.to_owned()
}
