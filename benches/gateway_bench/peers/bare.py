"""Reverse proxies that do none of the gateway's work: no keys, no credits, no accounting."""

from .. import machine
from ..candidate import Candidate
from ..common import wait_for
from ..upstream import nginx

# More kept connections to the platform than any load opens, so that no proxy pays for connecting.
KEPT = 16_384


def start_nginx(folder, platform):
    """P1: nginx with two workers, a socket each, and kept connections to the platform."""
    http = (
        f"  upstream platform {{ server {platform.url.removeprefix('http://')}; keepalive {KEPT};"
        " keepalive_requests 1000000000; }\n"
        "  server {\n    listen 127.0.0.1:PORT reuseport backlog=16384;\n    location / {\n"
        '      proxy_pass http://platform;\n      proxy_http_version 1.1;\n      proxy_set_header Connection "";\n'
        "      proxy_max_temp_file_size 0;\n    }\n  }"
    )
    process, url = nginx(folder, "bare", 2, http)
    wait_for(f"{url}/", process)
    return Candidate("P1", "nginx, bare proxy_pass, two workers", url, frozenset({process.pid}))


def start_haproxy(folder, platform):
    """haproxy with two threads and kept connections to the platform that any request may use."""
    port = machine.free_port()
    config = folder / "haproxy.cfg"
    config.write_text(
        "global\n  nbthread 2\n  maxconn 9500\n"
        "defaults\n  mode http\n  timeout connect 5s\n  timeout client 1h\n  timeout server 1h\n"
        "  http-reuse always\n  option http-keep-alive\n"
        f"frontend callers\n  bind 127.0.0.1:{port} backlog 16384\n  default_backend platform\n"
        f"backend platform\n  server platform {platform.url.removeprefix('http://')} pool-max-conn -1\n"
    )
    process = machine.start(["haproxy", "-db", "-f", config], folder / "haproxy.log")
    url = f"http://127.0.0.1:{port}"
    wait_for(f"{url}/", process)
    return Candidate("haproxy", "bare, two threads", url, frozenset({process.pid}))
