"""The platform that all candidates call: nginx with one worker, a fixed response, and an optional
delay."""

import functools
import json
import os

from . import machine
from .candidate import Candidate
from .common import ECHO, LARGE, wait_for

LARGE_BYTES = 2**30
LUA_MODULES = "/usr/lib/nginx/modules"
LUA_PACKAGES = [
    ("nginx", "nginx"),
    (f"{LUA_MODULES}/ngx_http_lua_module.so", "libnginx-mod-http-lua"),
    ("/usr/share/lua/5.1/nginx/redis.lua", "lua-nginx-redis"),
]
LOAD_LUA = f"load_module {LUA_MODULES}/ndk_http_module.so;\nload_module {LUA_MODULES}/ngx_http_lua_module.so;\n"
USE_LUA = '  lua_package_path "/usr/share/lua/5.1/?.lua;;";\n'


@functools.cache
def answer_body():
    """2 KB of JSON as a platform would return it."""
    body = {"id": "1", "list": []}
    while len(json.dumps(body)) < 2_000:
        place = len(body["list"])
        body["list"].append({"id": 10_000 + place, "name": f"Person {place}", "active": True})
    return json.dumps(body)


def nginx(folder, name, workers, http, modules=""):
    """Starts an nginx with this configuration, in which PORT is its port; returns its process and
    URL."""
    port = machine.free_port()
    config = folder / f"{name}.conf"
    places = "".join(
        f"  {kind}_temp_path {folder}/{name}-{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config.write_text(
        f"{modules}worker_processes {workers};\ndaemon off;\npid {folder}/{name}.pid;\n"
        f"error_log {folder}/{name}.log warn;\nevents {{ worker_connections 19000; }}\n"
        "http {\n  access_log off;\n  keepalive_requests 1000000000;\n  keepalive_timeout 1h;\n"
        f"{places}{http.replace('PORT', str(port))}\n}}\n"
    )
    process = machine.start(["nginx", "-c", config, "-e", folder / f"{name}.log"], folder / f"{name}.out")
    return process, f"http://127.0.0.1:{port}"


def start_platform(folder, name="platform", delay_ms=0):
    """Starts the platform; with a delay, every response is delayed by it."""
    body = answer_body()
    large = folder / "large.bin"
    if not large.exists():
        with open(large, "wb") as file:
            os.truncate(file.fileno(), LARGE_BYTES)
    if delay_ms:
        answer = f"content_by_lua_block {{ ngx.sleep({delay_ms / 1000}) ngx.print([=[{body}]=]) }}"
    else:
        answer = f"return 200 '{body}';"
    seen = '{"authorization":"$http_authorization","user":"$http_x_user_id","agent":"$http_user_agent",'
    seen += '"key":"$http_x_api_key"}'
    http = (
        f"{USE_LUA if delay_ms else ''}"
        "  server {\n    listen 127.0.0.1:PORT backlog=16384;\n    default_type application/json;\n"
        f"    location ~ /{ECHO}$ {{ return 200 '{seen}'; }}\n"
        f"    location ~ /{LARGE}$ {{ default_type application/octet-stream; sendfile on; root /;"
        f" try_files {large} =404; }}\n"
        f"    location / {{ {answer} }}\n  }}"
    )
    process, url = nginx(folder, name, 1, http, LOAD_LUA if delay_ms else "")
    wait_for(f"{url}/", process)
    return Candidate("P0", "the platform alone", url, frozenset({process.pid}))
