"""P3 and P3dur: nginx, Lua and Redis do the gateway's work."""

import hashlib
import pathlib

from ..candidate import Candidate
from ..common import wait_for
from ..upstream import LOAD_LUA, nginx
from .bare import KEPT
from .redis_books import start_redis

HERE = pathlib.Path(__file__).resolve().parent
TAKE_SCRIPT = HERE / "take.lua"


def start_lua(folder, platform, fsync):
    """The gateway in nginx; Redis syncs to the disk every second (`everysec`), or before it
    responds (`always`)."""
    name = {"everysec": "P3", "always": "P3dur"}[fsync]
    redis = start_redis(folder, f"redis-{name}", fsync)
    script = TAKE_SCRIPT.read_text()
    sha = hashlib.sha1(script.encode()).hexdigest()
    http = (
        f'  lua_package_path "{HERE}/?.lua;/usr/share/lua/5.1/?.lua;;";\n'
        "  lua_shared_dict keys 16m;\n  lua_shared_dict accounts 16m;\n"
        f"  init_by_lua_block {{ require('gate').init([==[{script}]==], '{sha}') }}\n"
        f"  upstream platform {{ server {platform.url.removeprefix('http://')}; keepalive {KEPT};"
        " keepalive_requests 1000000000; }\n"
        "  server {\n    listen 127.0.0.1:PORT reuseport backlog=16384;\n"
        "    location ~ ^/v1/(?<account>[^/]+)/native/(?<path>.*)$ {\n"
        "      set $authorization ''; set $user ''; set $agent ''; set $cost ''; set $balance '';\n"
        f"      access_by_lua_block {{ require('gate').access({redis.port}) }}\n"
        f"      log_by_lua_block {{ require('gate').log({redis.port}) }}\n"
        "      proxy_pass http://platform/$path$is_args$args;\n"
        '      proxy_http_version 1.1;\n      proxy_set_header Connection "";\n      proxy_set_header X-API-Key "";\n'
        "      proxy_set_header Authorization $authorization;\n      proxy_set_header X-User-Id $user;\n"
        "      proxy_set_header User-Agent $agent;\n      proxy_max_temp_file_size 0;\n"
        "      add_header X-Credits-Cost $cost always;\n      add_header X-Credits-Balance $balance always;\n"
        "    }\n    location / { return 404; }\n  }"
    )
    process, url = nginx(folder, name, 2, http, LOAD_LUA)
    wait_for(f"{url}/", process)
    promise = "before each response" if fsync == "always" else "every second"
    title = f"nginx + Lua + Redis, to the disk {promise}"
    return Candidate(name, title, url, frozenset({process.pid, redis.pid}), redis.keys, redis.books())
