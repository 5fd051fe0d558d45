"""One peer, as a program that a user would write in Python: reads all pages and writes one file.

    python peer.py PEER ADDRESS FILE

It runs in a separate environment, so it imports nothing of the other modules.
"""

import csv
import json
import os
import pathlib
import shutil
import sys

PAGE_ROWS = 1_000


def pages(address):
    """All pages, over one connection."""
    import requests

    session = requests.Session()
    offset = 0
    while page := session.get(address, params={"limit": PAGE_ROWS, "offset": offset}, timeout=60):
        yield page
        offset += PAGE_ROWS


def rows(address, parse):
    for page in pages(address):
        found = parse(page)
        if not found:
            return
        yield from found


def flat(row, parent=""):
    columns = {}
    for name, value in row.items():
        if isinstance(value, dict):
            columns.update(flat(value, f"{parent}{name}."))
        else:
            columns[parent + name] = json.dumps(value) if isinstance(value, list) else value
    return columns


def with_csv(address, path):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = None
        for row in rows(address, lambda page: page.json()):
            columns = flat(row)
            if writer is None:
                writer = csv.DictWriter(file, columns)
                writer.writeheader()
            writer.writerow(columns)


def with_orjson(address, path):
    import orjson

    with open(path, "wb") as file:
        for row in rows(address, lambda page: orjson.loads(page.content)):
            file.write(orjson.dumps(row) + b"\n")


def with_xlsxwriter(address, path):
    import xlsxwriter

    book = xlsxwriter.Workbook(path, {"constant_memory": True, "tmpdir": str(pathlib.Path(path).parent)})
    sheet = book.add_worksheet()
    for number, row in enumerate(rows(address, lambda page: page.json()), 1):
        columns = flat(row)
        if number == 1:
            sheet.write_row(0, 0, columns)
        for place, value in enumerate(columns.values()):
            if isinstance(value, str):
                sheet.write_string(number, place, value)
            elif value is not None:
                sheet.write(number, place, value)
    book.close()


def with_dlt(address, path, form):
    import dlt
    from dlt.sources.rest_api import rest_api_source

    base, _, resource = address.rpartition("/")
    paginator = {"type": "offset", "limit": PAGE_ROWS, "offset": 0, "limit_param": "limit", "total_path": None}
    endpoint = {"path": resource, "paginator": paginator}
    source = rest_api_source({"client": {"base_url": f"{base}/"}, "resources": [{"name": "rows", "endpoint": endpoint}]})
    folder = pathlib.Path(path).parent / "dlt"
    folder.mkdir()
    os.environ["DATA_WRITER__DISABLE_COMPRESSION"] = "true"
    os.environ["NORMALIZE__DATA_WRITER__DISABLE_COMPRESSION"] = "true"
    os.environ["RUNTIME__DLTHUB_TELEMETRY"] = "false"
    destination = dlt.destinations.filesystem(bucket_url=f"file://{folder}/out")
    pipeline = dlt.pipeline("export", destination=destination, dataset_name="d", pipelines_dir=str(folder / "state"))
    pipeline.run(source, loader_file_format=form)
    # dlt's file for the list itself; lists in rows become separate tables.
    with open(path, "wb") as joined:
        for number, part in enumerate(sorted((folder / "out/d/rows").iterdir())):
            with open(part, "rb") as file:
                if form == "csv" and number > 0:
                    file.readline()
                shutil.copyfileobj(file, joined)


PEERS = {
    "requests+csv": with_csv,
    "requests+orjson": with_orjson,
    "XlsxWriter": with_xlsxwriter,
    "dlt-csv": lambda address, path: with_dlt(address, path, "csv"),
    "dlt-jsonl": lambda address, path: with_dlt(address, path, "jsonl"),
}

if __name__ == "__main__":
    PEERS[sys.argv[1]](*sys.argv[2:])
