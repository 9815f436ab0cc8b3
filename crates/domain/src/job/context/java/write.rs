//! Writes a stream of Java's object serialization: values of ours as Java would write them, and objects that were read.

use super::graph::{Class, Data, FIRST_HANDLE, Field, Item, MAGIC, flag, primitive_bytes, tag};
use serde_json::{Map, Number, Value};
use std::sync::{Arc, LazyLock};

/// 0.75, at which a map grows.
const LOAD_FACTOR: u32 = 0x3f40_0000;

pub(super) struct Writer {
    bytes: Vec<u8>,
    /// The number of handles given.
    handles: u32,
    classes: Vec<(Arc<Class>, u32)>,
}

impl Writer {
    pub(super) fn new() -> Self {
        let mut bytes = Vec::with_capacity(1024);
        bytes.extend_from_slice(&MAGIC);
        Self { bytes, handles: 0, classes: Vec::with_capacity(4) }
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.bytes
    }

    /// Begins a `HashMap` of so many entries; the caller writes them and [`end`](Self::end).
    pub(super) fn hash_map(&mut self, entries: usize) {
        self.object(&CLASSES.hash_map);
        self.map_head(entries);
    }

    pub(super) fn end(&mut self) {
        self.bytes.push(tag::END_BLOCK);
    }

    /// A JSON value as the Java object that has the same meaning.
    pub(super) fn value(&mut self, value: &Value, whole: Whole) {
        match value {
            Value::Null => self.bytes.push(tag::NULL),
            Value::Bool(value) => {
                self.object(&CLASSES.boolean);
                self.bytes.push(u8::from(*value));
            }
            Value::Number(number) => self.number(number, whole),
            Value::String(text) => self.text(text),
            Value::Array(values) => {
                self.object(&CLASSES.array_list);
                self.int(values.len());
                self.bytes.extend_from_slice(&[tag::BLOCK, 4]);
                self.int(values.len());
                for value in values {
                    self.value(value, Whole::Long);
                }
                self.end();
            }
            Value::Object(values) => self.linked_map(values),
        }
    }

    pub(super) fn text(&mut self, text: &str) {
        let length = characters_length(text);
        match u16::try_from(length) {
            Ok(length) => {
                self.bytes.push(tag::TEXT);
                self.bytes.extend_from_slice(&length.to_be_bytes());
            }
            Err(_) => {
                self.bytes.push(tag::LONG_TEXT);
                self.bytes.extend_from_slice(&(length as u64).to_be_bytes());
            }
        }
        self.handles += 1;
        self.characters(text);
    }

    /// An object that was read.
    pub(super) fn item(&mut self, item: &Item) {
        match item {
            Item::Null => self.bytes.push(tag::NULL),
            Item::Primitive(code, bits) => {
                let size = primitive_bytes(*code).unwrap_or(8);
                self.bytes.extend_from_slice(&bits.to_be_bytes()[8 - size..]);
            }
            Item::Text(text) => self.text(text),
            Item::Object(object) => {
                self.object(&object.class);
                for (class, part) in object.class.line().iter().zip(&object.parts) {
                    part.fields.iter().for_each(|field| self.item(field));
                    for data in &part.data {
                        match data {
                            Data::Item(item) => self.item(item),
                            Data::Block(block) => {
                                for block in block.chunks(usize::from(u8::MAX)) {
                                    self.bytes.extend_from_slice(&[tag::BLOCK, block.len() as u8]);
                                    self.bytes.extend_from_slice(block);
                                }
                            }
                        }
                    }
                    if class.has_data() {
                        self.end();
                    }
                }
            }
            Item::Array(array) => {
                let (class, items) = array.as_ref();
                self.instance(tag::ARRAY, class);
                self.int(items.len());
                items.iter().for_each(|item| self.item(item));
            }
            Item::Enum(class, name) => {
                self.instance(tag::ENUM, class);
                self.text(name);
            }
        }
    }

    fn number(&mut self, number: &Number, whole: Whole) {
        if let Some(long) = number.as_i64() {
            match (whole, i32::try_from(long)) {
                (Whole::Int, Ok(int)) => {
                    self.object(&CLASSES.integer);
                    self.bytes.extend_from_slice(&int.to_be_bytes());
                }
                _ => {
                    self.object(&CLASSES.long);
                    self.bytes.extend_from_slice(&long.to_be_bytes());
                }
            }
        } else if let Some(large) = number.as_u64() {
            self.object(&CLASSES.big_integer);
            // Fields of old versions, as Java still writes them, and the sign.
            for field in [-1, -1, -2, -2, 1_i32] {
                self.bytes.extend_from_slice(&field.to_be_bytes());
            }
            self.instance(tag::ARRAY, &CLASSES.bytes);
            self.int(8);
            self.bytes.extend_from_slice(&large.to_be_bytes());
            self.end();
        } else {
            self.object(&CLASSES.double);
            self.bytes.extend_from_slice(&number.as_f64().unwrap_or(f64::NAN).to_be_bytes());
        }
    }

    fn linked_map(&mut self, values: &Map<String, Value>) {
        self.object(&CLASSES.linked_map);
        self.map_head(values.len());
        for (key, value) in values {
            self.text(key);
            self.value(value, Whole::Long);
        }
        self.end();
        // Not in the order of access.
        self.bytes.push(0);
    }

    /// Java makes room for 16 entries and doubles it when three quarters are taken.
    fn map_head(&mut self, entries: usize) {
        let mut room = 16;
        while room * 3 / 4 < entries {
            room *= 2;
        }
        self.bytes.extend_from_slice(&LOAD_FACTOR.to_be_bytes());
        self.int(if entries == 0 { 0 } else { room * 3 / 4 });
        self.bytes.extend_from_slice(&[tag::BLOCK, 8]);
        self.int(room);
        self.int(entries);
    }

    fn object(&mut self, class: &Arc<Class>) {
        self.instance(tag::OBJECT, class);
    }

    fn instance(&mut self, tag: u8, class: &Arc<Class>) {
        self.bytes.push(tag);
        self.class(class);
        self.handles += 1;
    }

    fn class(&mut self, class: &Arc<Class>) {
        if let Some((_, handle)) = self.classes.iter().find(|(known, _)| known.name == class.name) {
            self.bytes.push(tag::REFERENCE);
            self.bytes.extend_from_slice(&handle.to_be_bytes());
            return;
        }
        self.bytes.push(tag::CLASS_DESCRIPTION);
        self.name(&class.name);
        self.bytes.extend_from_slice(&class.uid.to_be_bytes());
        self.classes.push((Arc::clone(class), FIRST_HANDLE + self.handles));
        self.handles += 1;
        self.bytes.push(class.flags);
        let fields = u16::try_from(class.fields.len()).unwrap_or(u16::MAX);
        self.bytes.extend_from_slice(&fields.to_be_bytes());
        for field in &class.fields {
            self.bytes.push(field.code);
            self.name(&field.name);
            if let Some(class) = &field.class {
                self.text(class);
            }
        }
        self.end();
        match &class.parent {
            Some(parent) => self.class(parent),
            None => self.bytes.push(tag::NULL),
        }
    }

    /// Names of classes and fields are short.
    fn name(&mut self, name: &str) {
        let length = u16::try_from(characters_length(name)).unwrap_or(u16::MAX);
        self.bytes.extend_from_slice(&length.to_be_bytes());
        self.characters(name);
    }

    fn characters(&mut self, text: &str) {
        if is_one_byte_each(text) {
            self.bytes.extend_from_slice(text.as_bytes());
            return;
        }
        for unit in text.encode_utf16() {
            let low = |shift: u16| 0x80 | (unit >> shift & 0x3f) as u8;
            match unit {
                1..0x80 => self.bytes.push(unit as u8),
                0 | 0x80..0x800 => self.bytes.extend_from_slice(&[0xc0 | (unit >> 6) as u8, low(0)]),
                _ => self.bytes.extend_from_slice(&[0xe0 | (unit >> 12) as u8, low(6), low(0)]),
            }
        }
    }

    fn int(&mut self, number: usize) {
        let number = i32::try_from(number).unwrap_or(i32::MAX);
        self.bytes.extend_from_slice(&number.to_be_bytes());
    }
}

/// As what a whole number is written. Java's `getInt` and `getLong` each refuse the other one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Whole {
    /// If it fits.
    Int,
    Long,
}

fn is_one_byte_each(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, 1..0x80))
}

fn characters_length(text: &str) -> usize {
    if is_one_byte_each(text) {
        return text.len();
    }
    let unit = |unit: u16| match unit {
        1..0x80 => 1,
        0 | 0x80..0x800 => 2,
        _ => 3,
    };
    text.encode_utf16().map(unit).sum()
}

struct Classes {
    boolean: Arc<Class>,
    integer: Arc<Class>,
    long: Arc<Class>,
    double: Arc<Class>,
    big_integer: Arc<Class>,
    bytes: Arc<Class>,
    array_list: Arc<Class>,
    hash_map: Arc<Class>,
    linked_map: Arc<Class>,
}

/// The classes as Java describes them; their numbers never change.
static CLASSES: LazyLock<Classes> = LazyLock::new(|| {
    const PLAIN: u8 = flag::SERIALIZABLE;
    const WRITES: u8 = flag::SERIALIZABLE | flag::WRITES;
    let class = |name: &str, uid: u64, flags: u8, fields: &[(u8, &str)], parent: Option<&Arc<Class>>| {
        let field = |(code, name): &(u8, &str)| Field {
            code: *code,
            name: (*name).to_owned(),
            class: (*code == b'[').then(|| "[B".to_owned()),
        };
        let fields = fields.iter().map(field).collect();
        Arc::new(Class {
            name: name.to_owned(),
            uid: uid.cast_signed(),
            flags,
            fields,
            parent: parent.cloned(),
        })
    };
    let number = class("java.lang.Number", 0x86ac_951d_0b94_e08b, PLAIN, &[], None);
    let of_number = |name, uid, code| class(name, uid, PLAIN, &[(code, "value")], Some(&number));
    let hash_map = class(
        "java.util.HashMap",
        0x0507_dac1_c316_60d1,
        WRITES,
        &[(b'F', "loadFactor"), (b'I', "threshold")],
        None,
    );
    let big_integer = class(
        "java.math.BigInteger",
        0x8cfc_9f1f_a93b_fb1d,
        WRITES,
        &[
            (b'I', "bitCount"),
            (b'I', "bitLength"),
            (b'I', "firstNonzeroByteNum"),
            (b'I', "lowestSetBit"),
            (b'I', "signum"),
            (b'[', "magnitude"),
        ],
        Some(&number),
    );
    Classes {
        boolean: class("java.lang.Boolean", 0xcd20_7280_d59c_faee, PLAIN, &[(b'Z', "value")], None),
        integer: of_number("java.lang.Integer", 0x12e2_a0a4_f781_8738, b'I'),
        long: of_number("java.lang.Long", 0x3b8b_e490_cc8f_23df, b'J'),
        double: of_number("java.lang.Double", 0x80b3_c24a_296b_fb04, b'D'),
        bytes: class("[B", 0xacf3_17f8_0608_54e0, PLAIN, &[], None),
        array_list: class("java.util.ArrayList", 0x7881_d21d_99c7_619d, WRITES, &[(b'I', "size")], None),
        linked_map: class(
            "java.util.LinkedHashMap",
            0x34c0_4e5c_106c_c0fb,
            PLAIN,
            &[(b'Z', "accessOrder")],
            Some(&hash_map),
        ),
        big_integer,
        hash_map,
    }
});
