//! Objects in a stream of Java's object serialization, as trees that need not know their classes.
//!
//! The stream describes each class before its first object, so any object can be read and written again. The format is
//! chapter 6 of the Java Object Serialization Specification.

use std::sync::Arc;

pub(super) const MAGIC: [u8; 4] = [0xac, 0xed, 0, 5];
/// Handles count from here, in the order in which classes, objects, texts and arrays appear.
pub(super) const FIRST_HANDLE: u32 = 0x007e_0000;

/// What follows in a stream.
pub(super) mod tag {
    pub(crate) const NULL: u8 = 0x70;
    pub(crate) const REFERENCE: u8 = 0x71;
    pub(crate) const CLASS_DESCRIPTION: u8 = 0x72;
    pub(crate) const OBJECT: u8 = 0x73;
    pub(crate) const TEXT: u8 = 0x74;
    pub(crate) const ARRAY: u8 = 0x75;
    pub(crate) const BLOCK: u8 = 0x77;
    pub(crate) const END_BLOCK: u8 = 0x78;
    pub(crate) const LONG_BLOCK: u8 = 0x7a;
    pub(crate) const LONG_TEXT: u8 = 0x7c;
    pub(crate) const ENUM: u8 = 0x7e;
}

/// Flags of a class.
pub(super) mod flag {
    /// It writes data of its own after its fields.
    pub(crate) const WRITES: u8 = 1;
    pub(crate) const SERIALIZABLE: u8 = 2;
    /// It writes data of its own and no fields.
    pub(crate) const EXTERNALIZABLE: u8 = 4;
    /// Its data is in blocks, so that its end can be found.
    pub(crate) const IN_BLOCKS: u8 = 8;
}

#[derive(PartialEq, Debug)]
pub(in crate::job::context) struct Class {
    pub(super) name: String,
    pub(super) uid: i64,
    pub(super) flags: u8,
    pub(super) fields: Vec<Field>,
    pub(super) parent: Option<Arc<Class>>,
}

#[derive(PartialEq, Debug)]
pub(in crate::job::context) struct Field {
    /// `J` for a long, `L` for an object, `[` for an array and so on.
    pub(super) code: u8,
    pub(super) name: String,
    /// Of an object or an array.
    pub(super) class: Option<String>,
}

/// An object that occurs twice is shared.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::job::context) enum Item {
    Null,
    /// The code of its type and its bits, right-aligned.
    Primitive(u8, u64),
    Text(Arc<str>),
    Object(Arc<Object>),
    Array(Arc<(Arc<Class>, Vec<Item>)>),
    /// The constant's name.
    Enum(Arc<Class>, Arc<str>),
}

#[derive(PartialEq, Debug)]
pub(in crate::job::context) struct Object {
    pub(super) class: Arc<Class>,
    /// One for each class, from the topmost down.
    pub(super) parts: Vec<Part>,
}

#[derive(PartialEq, Debug)]
pub(in crate::job::context) struct Part {
    pub(super) fields: Vec<Item>,
    pub(super) data: Vec<Data>,
}

/// What a class has written itself.
#[derive(PartialEq, Debug)]
pub(in crate::job::context) enum Data {
    Block(Vec<u8>),
    Item(Item),
}

impl Class {
    /// With its parents, from the topmost down.
    pub(super) fn line(self: &Arc<Self>) -> Vec<Arc<Self>> {
        let mut line = match &self.parent {
            Some(parent) => parent.line(),
            None => Vec::new(),
        };
        line.push(Arc::clone(self));
        line
    }

    pub(super) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Whether data of its own ends with a mark.
    pub(super) const fn has_data(&self) -> bool {
        self.has(flag::WRITES) || self.has(flag::EXTERNALIZABLE)
    }
}

impl Object {
    pub(super) fn field(&self, name: &str) -> Option<&Item> {
        let line = self.class.line();
        line.iter().zip(&self.parts).find_map(|(class, part)| {
            let at = class.fields.iter().position(|field| field.name == name)?;
            part.fields.get(at)
        })
    }

    /// A field that is a primitive.
    pub(super) fn bits(&self, name: &str) -> Option<u64> {
        match self.field(name)? {
            Item::Primitive(_, bits) => Some(*bits),
            _ => None,
        }
    }

    /// The objects in the data of all its classes.
    pub(super) fn items(&self) -> impl Iterator<Item = &Item> {
        self.parts.iter().flat_map(|part| &part.data).filter_map(|data| match data {
            Data::Item(item) => Some(item),
            Data::Block(_) => None,
        })
    }

    /// The bytes in the data of all its classes.
    pub(super) fn block(&self) -> Vec<u8> {
        let data = self.parts.iter().flat_map(|part| &part.data);
        let blocks = data.filter_map(|data| match data {
            Data::Block(bytes) => Some(bytes.as_slice()),
            Data::Item(_) => None,
        });
        blocks.collect::<Vec<_>>().concat()
    }
}

/// Bytes of a primitive type; `None` for objects and arrays.
pub(super) const fn primitive_bytes(code: u8) -> Option<usize> {
    match code {
        b'B' | b'Z' => Some(1),
        b'C' | b'S' => Some(2),
        b'I' | b'F' => Some(4),
        b'J' | b'D' => Some(8),
        _ => None,
    }
}
