"""Makes and reads files as others do: rows of texts, in the format that the name of the file says.

    files.py make NAME ROWS    ROWS is a list of objects, as JSON
    files.py rows NAME         prints such a list
"""

import csv
import gzip
import io
import json
import os
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import fastavro
import openpyxl
import pyarrow
import pyarrow.ipc
import pyarrow.parquet
import zstandard


def packed(name, data):
    if name.endswith(".gz"):
        return gzip.compress(data)
    if name.endswith(".zst"):
        return zstandard.compress(data)
    return data


def unpacked(name):
    if name.endswith(".zst"):
        with open(name, "rb") as file:
            return zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True).read()
    if name.endswith(".gz"):
        with gzip.open(name) as file:
            return file.read()
    return Path(name).read_bytes()


def write_csv(rows):
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0].keys() if rows else ["id", "name"])
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def write_jsonl(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def write_json(rows):
    return json.dumps(rows, indent=2, ensure_ascii=False).encode()


def write_txt(rows):
    return "".join(f"{row['id']:<6}{row['name']:<14}\n" for row in rows).encode()


def read_txt(data):
    lines = data.decode().splitlines()
    assert all(len(line) == 20 for line in lines), lines
    return [{"id": line[:6].strip(), "name": line[6:].strip()} for line in lines]


def write_xml(rows):
    root = ElementTree.Element("all")
    parent = ElementTree.SubElement(root, "rows")
    for row in rows:
        element = ElementTree.SubElement(parent, "row", id=row["id"])
        ElementTree.SubElement(element, "name").text = row["name"]
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)


def read_xml(data):
    rows = ElementTree.fromstring(data).findall("row")
    return [{"id": row.get("id"), "name": row.findtext("name")} for row in rows]


def write_xlsx(rows):
    book = openpyxl.Workbook()
    book.active.append(list(rows[0]))
    for row in rows:
        book.active.append([int(row["id"]), row["name"]])
    data = io.BytesIO()
    book.save(data)
    return data.getvalue()


def write_parquet(rows):
    data = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), data, row_group_size=20)
    return data.getvalue()


def read_parquet(data):
    return pyarrow.parquet.read_table(io.BytesIO(data)).to_pylist()


def write_arrow(rows):
    table, data = pyarrow.Table.from_pylist(rows), io.BytesIO()
    with pyarrow.ipc.new_file(data, table.schema) as file:
        file.write_table(table, max_chunksize=20)
    return data.getvalue()


def read_arrow(data):
    return pyarrow.ipc.open_file(data).read_all().to_pylist()


def write_avro(rows):
    schema = {"type": "record", "name": "row", "fields": [{"name": name, "type": "string"} for name in rows[0]]}
    data = io.BytesIO()
    fastavro.writer(data, schema, rows, codec="deflate", sync_interval=200)
    return data.getvalue()


def read_avro(data):
    return list(fastavro.reader(io.BytesIO(data)))


def read_csv(data):
    return list(csv.DictReader(io.StringIO(data.decode(), newline="")))


def read_jsonl(data):
    return [json.loads(line) for line in data.decode().splitlines()]


WRITERS = {".csv": write_csv, ".jsonl": write_jsonl, ".json": write_json, ".txt": write_txt, ".xml": write_xml, ".xlsx": write_xlsx, ".parquet": write_parquet, ".arrow": write_arrow, ".avro": write_avro}
READERS = {".csv": read_csv, ".jsonl": read_jsonl, ".json": json.loads, ".txt": read_txt, ".xml": read_xml, ".parquet": read_parquet, ".arrow": read_arrow, ".avro": read_avro}


def main(action, name, *rest):
    ending = Path(name.removesuffix(".gz").removesuffix(".zst")).suffix
    if action == "make":
        Path(name).write_bytes(packed(name, WRITERS[ending](json.loads(rest[0]))))
        print(json.dumps("made"))
    else:
        print(json.dumps(READERS[ending](unpacked(name))))


main(*sys.argv[1:])
sys.stdout.flush()
# Threads of pyarrow may still end while Python does, which aborts it.
os._exit(0)
