//! Projects of After Effects as XML (`.aepx`).
//!
//! An `Item` is a folder, a composition or footage. A composition has one `Layr` per layer. Their names are in `string`.
//! Everything else that matters here is binary, as hexadecimal digits in the attribute `bdata`: `idta` and `cdta` of items
//! (number; size, rate and duration), `ldta` of layers (type and source) and `opti` of footage (whether it is a solid).

use quick_xml::escape::unescape;
use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;
use std::collections::BTreeMap;
use tidemill_domain::render::template::{Composition, LAYERS_MAX, Layer, LayerType, Template};

const LEVELS_MAX: usize = 256;
const ITEMS_MAX: usize = 100_000;

/// After Effects writes this for "no name".
const NO_NAME: &str = "-_0_/-";

/// An item of the project.
#[derive(Default)]
struct Item {
    number: u32,
    name: Option<String>,
    /// None if the item is not a composition.
    composition: Option<Vec<u8>>,
    layers: Vec<RawLayer>,
    is_solid: bool,
    file: Option<String>,
}

#[derive(Default)]
struct RawLayer {
    name: Option<String>,
    data: Vec<u8>,
}

/// An element that is open.
enum Open {
    Item(Box<Item>),
    Layer(RawLayer),
    Other,
}

pub(super) fn read(text: &str) -> Result<Template, String> {
    let mut reader = Reader::from_str(text);
    let (mut open, mut items, mut layers): (Vec<Open>, Vec<Item>, usize) = (Vec::new(), Vec::new(), 0);
    let mut has_root = false;
    loop {
        let broken = |error: &dyn std::fmt::Display| format!("the XML is broken: {error}");
        match reader.read_event().map_err(|error| broken(&error))? {
            Event::Start(tag) => {
                has_root = has_root || tag.local_name().into_inner() == b"AfterEffectsProject";
                if !has_root {
                    return Err("the file is not a project of After Effects as XML".to_owned());
                }
                if open.len() == LEVELS_MAX {
                    return Err(format!("the XML has more than {LEVELS_MAX} levels"));
                }
                if tag.local_name().into_inner() == b"string" && is_unnamed(open.last()) {
                    let raw = reader.read_text(tag.name()).map_err(|error| broken(&error))?;
                    let raw = raw.decode().map_err(|error| broken(&error))?;
                    let name = unescape(&raw).map_err(|error| broken(&error))?;
                    set_name(open.last_mut(), name.into_owned());
                    continue;
                }
                attributes(&tag, &mut open);
                open.push(match tag.local_name().into_inner() {
                    b"Item" => Open::Item(Box::default()),
                    b"Layr" => Open::Layer(RawLayer::default()),
                    _ => Open::Other,
                });
            }
            Event::Empty(tag) if tag.local_name().into_inner() != b"string" => attributes(&tag, &mut open),
            Event::Empty(_) if is_unnamed(open.last()) => set_name(open.last_mut(), String::new()),
            Event::Empty(_) => {}
            Event::End(_) => match open.pop() {
                Some(Open::Item(_)) if items.len() == ITEMS_MAX => {
                    return Err(format!("the project has more than {ITEMS_MAX} items"));
                }
                Some(Open::Item(item)) => items.push(*item),
                Some(Open::Layer(layer)) => {
                    layers += 1;
                    if layers > LAYERS_MAX {
                        return Err(format!("the project has more than {LAYERS_MAX} layers"));
                    }
                    if let Some(Open::Item(item)) = open.last_mut() {
                        item.layers.push(layer);
                    }
                }
                Some(Open::Other) | None => {}
            },
            Event::Eof if !open.is_empty() => return Err("the XML ends too early".to_owned()),
            Event::Eof if !has_root => {
                return Err("the file is not a project of After Effects as XML".to_owned());
            }
            Event::Eof => return Ok(template(&items)),
            _ => {}
        }
    }
}

fn is_unnamed(parent: Option<&Open>) -> bool {
    match parent {
        Some(Open::Item(item)) => item.name.is_none(),
        Some(Open::Layer(layer)) => layer.name.is_none(),
        Some(Open::Other) | None => false,
    }
}

fn set_name(parent: Option<&mut Open>, name: String) {
    let name = if name == NO_NAME { String::new() } else { name };
    match parent {
        Some(Open::Item(item)) => item.name = Some(name),
        Some(Open::Layer(layer)) => layer.name = Some(name),
        Some(Open::Other) | None => {}
    }
}

/// Takes what an element says of the item or layer around it.
fn attributes(tag: &BytesStart<'_>, open: &mut [Open]) {
    let value = |name: &str| tag.try_get_attribute(name).ok().flatten().map(|found| found.value.into_owned());
    let data = || value("bdata").map(|digits| bytes(&digits)).unwrap_or_default();
    let name = tag.local_name();
    match (name.into_inner(), open.last_mut()) {
        (b"idta", Some(Open::Item(item))) => item.number = number(&data(), 16),
        (b"cdta", Some(Open::Item(item))) => item.composition = Some(data()),
        (b"ldta", Some(Open::Layer(layer))) => layer.data = data(),
        (b"opti" | b"fileReference", _) => {
            let around = open.iter_mut().rev().find_map(|one| match one {
                Open::Item(item) => Some(item),
                _ => None,
            });
            let Some(item) = around else { return };
            if let Some(path) = value("fullpath") {
                let path = String::from_utf8_lossy(&path);
                let path = unescape(&path).unwrap_or_else(|_| path.clone());
                item.file = path.rsplit(['/', '\\']).next().map(str::to_owned);
            }
            item.is_solid |= data().starts_with(b"Soli");
        }
        _ => {}
    }
}

/// The first bytes of hexadecimal digits; all that is read is among them.
fn bytes(digits: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let digits = digits.iter().filter_map(|byte| digit(*byte)).take(400).collect::<Vec<_>>();
    digits.chunks_exact(2).map(|pair| pair[0] * 16 + pair[1]).collect()
}

/// A number of four bytes; 0 where the data ends before it.
fn number(data: &[u8], at: usize) -> u32 {
    data.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_be_bytes)
}

fn template(items: &[Item]) -> Template {
    let by_number: BTreeMap<u32, &Item> = items.iter().map(|item| (item.number, item)).collect();
    let composition = |item: &Item| {
        let data = item.composition.as_ref()?;
        let size = number(data, 140);
        let (dividend, divisor) = (number(data, 44), number(data, 48));
        Some(Composition {
            name: item.name.clone().unwrap_or_default(),
            width: Some(size >> 16).filter(|width| *width > 0),
            height: Some(size & 0xffff).filter(|height| *height > 0),
            frame_rate: Some(f64::from(number(data, 156)) / 65_536.0).filter(|rate| *rate > 0.0),
            duration: (dividend > 0 && divisor > 0).then(|| f64::from(dividend) / f64::from(divisor)),
            layers: item.layers.iter().map(|layer| of(layer, &by_number)).collect(),
        })
    };
    Template { project: None, compositions: items.iter().filter_map(composition).collect() }
}

fn of(layer: &RawLayer, by_number: &BTreeMap<u32, &Item>) -> Layer {
    let source = by_number.get(&number(&layer.data, 40)).filter(|_| layer.data.len() > 44);
    let source_name =
        || source.map(|item| item.name.clone().filter(|name| !name.is_empty()).or_else(|| item.file.clone()));
    // A layer without a name of its own is called as its source.
    let name = layer.name.clone().filter(|name| !name.is_empty()).or_else(|| source_name().flatten());
    let kind = match (layer.data.get(131), source) {
        (Some(3), _) => LayerType::Text,
        (Some(0), Some(item)) if item.composition.is_some() => LayerType::Composition,
        (Some(0), Some(item)) if !item.is_solid => LayerType::Image,
        _ => LayerType::Other,
    };
    let is_composition = kind == LayerType::Composition;
    let composition = source.filter(|_| is_composition).and_then(|item| item.name.clone());
    Layer { name: name.unwrap_or_default(), kind, composition }
}
