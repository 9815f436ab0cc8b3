//! Reads a stream of Java's object serialization.

use super::graph::{Class, Data, FIRST_HANDLE, Field, Item, MAGIC, Object, Part, flag, primitive_bytes, tag};
use std::sync::Arc;

/// Objects in objects; Java's own stack holds some thousands.
const DEPTH_MAX: usize = 100;

/// Why a stream cannot be read, as the end of a sentence.
type Reason = String;

pub(super) fn read(bytes: &[u8]) -> Result<Item, Reason> {
    let mut reader = Reader { bytes, handles: Vec::new(), depth: 0 };
    if reader.array()? != MAGIC {
        return Err("it is no stream of objects".to_owned());
    }
    reader.item()
}

enum Handle {
    /// The object is being read.
    Open,
    Class(Arc<Class>),
    Item(Item),
}

struct Reader<'a> {
    bytes: &'a [u8],
    handles: Vec<Handle>,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn item(&mut self) -> Result<Item, Reason> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("its objects are nested more than {DEPTH_MAX} deep"));
        }
        let item = match self.byte()? {
            tag::NULL => Item::Null,
            tag::REFERENCE => match self.referred()? {
                Handle::Item(item) => item.clone(),
                Handle::Open => return Err("an object in it refers to itself".to_owned()),
                Handle::Class(class) => return Err(format!("it has the class {} as a value", class.name)),
            },
            tag::TEXT => {
                let length = u16::from_be_bytes(self.array()?);
                self.text(usize::from(length))?
            }
            tag::LONG_TEXT => {
                let length = u64::from_be_bytes(self.array()?);
                self.text(usize::try_from(length).unwrap_or(usize::MAX))?
            }
            tag::OBJECT => {
                let class = self.class()?;
                self.add(|reader| reader.object(class))?
            }
            tag::ARRAY => {
                let class = self.class()?;
                self.add(|reader| reader.array_items(class))?
            }
            tag::ENUM => {
                let class = self.class()?;
                self.add(|reader| match reader.item()? {
                    Item::Text(name) => Ok(Item::Enum(class, name)),
                    _ => Err("a constant in it has no name".to_owned()),
                })?
            }
            other => return Err(format!("it has a part of an unknown type ({other:#04x})")),
        };
        self.depth -= 1;
        Ok(item)
    }

    /// Gives the next item a handle, which comes before those of its parts.
    fn add(&mut self, read: impl FnOnce(&mut Self) -> Result<Item, Reason>) -> Result<Item, Reason> {
        let handle = self.handles.len();
        self.handles.push(Handle::Open);
        let item = read(self)?;
        self.handles[handle] = Handle::Item(item.clone());
        Ok(item)
    }

    fn object(&mut self, class: Arc<Class>) -> Result<Item, Reason> {
        let mut parts = Vec::new();
        for class in class.line() {
            if class.has(flag::EXTERNALIZABLE) && !class.has(flag::IN_BLOCKS) {
                return Err(format!("an object of {} has no end", class.name));
            }
            let fields = match class.has(flag::SERIALIZABLE) {
                true => class.fields.iter().map(|field| self.value(field.code)).collect::<Result<_, _>>()?,
                false => Vec::new(),
            };
            let data = if class.has_data() { self.data()? } else { Vec::new() };
            parts.push(Part { fields, data });
        }
        Ok(Item::Object(Arc::new(Object { class, parts })))
    }

    fn array_items(&mut self, class: Arc<Class>) -> Result<Item, Reason> {
        let length = u32::from_be_bytes(self.array()?);
        let code = class.name.as_bytes().get(1).copied().unwrap_or(b'L');
        let items = (0..length).map(|_| self.value(code)).collect::<Result<Vec<_>, _>>()?;
        Ok(Item::Array(Arc::new((class, items))))
    }

    fn value(&mut self, code: u8) -> Result<Item, Reason> {
        let Some(size) = primitive_bytes(code) else { return self.item() };
        let bits = self.take(size)?.iter().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
        Ok(Item::Primitive(code, bits))
    }

    fn data(&mut self) -> Result<Vec<Data>, Reason> {
        let mut data = Vec::new();
        loop {
            let length = match self.bytes.first() {
                Some(&tag::END_BLOCK) => {
                    self.byte()?;
                    return Ok(data);
                }
                Some(&tag::BLOCK) => {
                    let [_, length] = self.array()?;
                    usize::from(length)
                }
                Some(&tag::LONG_BLOCK) => {
                    self.byte()?;
                    usize::try_from(u32::from_be_bytes(self.array()?)).unwrap_or(usize::MAX)
                }
                _ => {
                    data.push(Data::Item(self.item()?));
                    continue;
                }
            };
            data.push(Data::Block(self.take(length)?.to_vec()));
        }
    }

    fn class(&mut self) -> Result<Arc<Class>, Reason> {
        self.class_if_any()?.ok_or_else(|| "an object in it has no class".to_owned())
    }

    fn class_if_any(&mut self) -> Result<Option<Arc<Class>>, Reason> {
        match self.byte()? {
            tag::NULL => return Ok(None),
            tag::REFERENCE => {
                return match self.referred()? {
                    Handle::Class(class) => Ok(Some(Arc::clone(class))),
                    _ => Err("a class in it is none".to_owned()),
                };
            }
            tag::CLASS_DESCRIPTION => {}
            _ => return Err("it has a class that is made while the program runs".to_owned()),
        }
        let (name, uid) = (self.name()?, i64::from_be_bytes(self.array()?));
        let handle = self.handles.len();
        self.handles.push(Handle::Open);
        let [flags] = self.array()?;
        let mut fields = Vec::new();
        for _ in 0..u16::from_be_bytes(self.array()?) {
            let (code, name) = (self.byte()?, self.name()?);
            let class = match primitive_bytes(code) {
                Some(_) => None,
                None => match self.item()? {
                    Item::Text(class) => Some(class.as_ref().to_owned()),
                    _ => return Err(format!("the field {name} has no type")),
                },
            };
            fields.push(Field { code, name, class });
        }
        self.data()?;
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("the class {name} has more than {DEPTH_MAX} parents"));
        }
        let parent = self.class_if_any()?;
        self.depth -= 1;
        let class = Arc::new(Class { name, uid, flags, fields, parent });
        self.handles[handle] = Handle::Class(Arc::clone(&class));
        Ok(Some(class))
    }

    fn referred(&mut self) -> Result<&Handle, Reason> {
        let index = u32::from_be_bytes(self.array()?).checked_sub(FIRST_HANDLE);
        let handle = index.and_then(|index| self.handles.get(usize::try_from(index).ok()?));
        handle.ok_or_else(|| "it refers to an object that is not there".to_owned())
    }

    fn text(&mut self, length: usize) -> Result<Item, Reason> {
        let text = Item::Text(self.characters(length)?.into());
        self.handles.push(Handle::Item(text.clone()));
        Ok(text)
    }

    fn name(&mut self) -> Result<String, Reason> {
        let length = u16::from_be_bytes(self.array()?);
        self.characters(usize::from(length))
    }

    /// Java writes UTF-16 units in one to three bytes each.
    fn characters(&mut self, length: usize) -> Result<String, Reason> {
        let bytes = self.take(length)?;
        if bytes.is_ascii() {
            return Ok(String::from_utf8_lossy(bytes).into_owned());
        }
        let mut units = Vec::with_capacity(bytes.len());
        let mut left = bytes.iter().map(|byte| u16::from(*byte));
        while let Some(first) = left.next() {
            let mut more = || left.next().map(|byte| byte & 0x3f);
            units.push(match first {
                0..0x80 => Some(first),
                0xc0..0xe0 => more().map(|second| (first & 0x1f) << 6 | second),
                0xe0..0xf0 => more().zip(more()).map(|(second, third)| first << 12 | second << 6 | third),
                _ => None,
            });
        }
        let units: Option<Vec<u16>> = units.into_iter().collect();
        let text = units.and_then(|units| String::from_utf16(&units).ok());
        text.ok_or_else(|| "a text in it is not Unicode".to_owned())
    }

    fn byte(&mut self) -> Result<u8, Reason> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Reason> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Reason> {
        let (taken, left) = self.bytes.split_at_checked(length).ok_or("its end is missing")?;
        self.bytes = left;
        Ok(taken)
    }
}
