"""The platform whose list is exported: pages as files, served by nginx."""

import json

from gateway_bench.common import check, wait_for
from gateway_bench.upstream import nginx

PAGE_ROWS = 1_000
OVERLAP_ROWS = 8
PATH = "user/1/subscription"


def row(number):
    """Fifteen fields and a nested object."""
    return {
        "_id": f"{number:024x}", "username": f"fan_{number}", "name": f"Fan number {number}", "email": f"fan{number}@example.com",
        "country": "DE", "city": "Köln, am Rhein", "age": 18 + number % 60, "price": number % 50 + 0.99, "active": True,
        "expired": False, "note": None, "bio": 'likes "music" and travel', "created_at": "2026-01-01T00:00:00Z",
        "tags": ["vip", "new"], "spent": number * 7 % 100_000,
        "subscription": {"plan": "monthly", "renews": True, "price": number % 50 + 0.99},
    }


def start_platform(folder, rows):
    """Writes the pages and serves them; returns the process and the address."""
    check(rows % PAGE_ROWS == 0, f"--rows must be a multiple of {PAGE_ROWS}")
    pages = folder / "pages"
    pages.mkdir()
    pages.chmod(0o755)
    # The offsets of programs that continue after the last row, and those of creator-gateway, whose
    # pages overlap.
    offsets = {*range(0, rows, PAGE_ROWS), *range(0, rows, PAGE_ROWS - OVERLAP_ROWS), rows - OVERLAP_ROWS}
    for offset in offsets:
        page = [row(number) for number in range(offset, min(offset + PAGE_ROWS, rows))]
        (pages / str(offset)).write_text(json.dumps(page, ensure_ascii=False, separators=(",", ":")))
    http = (
        "  sendfile on;\n  server {\n    listen 127.0.0.1:PORT;\n    default_type application/json;\n"
        f"    location = /{PATH} {{ root {pages}; try_files /$arg_offset @end; }}\n"
        "    location @end { return 200 '[]'; }\n"
        "    location / { return 200 '{\"_id\":\"1\"}'; }\n  }"
    )
    process, url = nginx(folder, "platform", 1, http)
    wait_for(f"{url}/", process)
    return process, url
