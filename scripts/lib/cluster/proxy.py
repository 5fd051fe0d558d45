"""A proxy in front of a database that can stop passing bytes, like a network that drops every
packet."""

import asyncio
import contextlib
import threading

CHUNK_BYTES = 65536
START_TIMEOUT_S = 300


class Proxy:
    """Forwards connections to a port of this machine, in a thread of its own.

    While it is silent nothing passes in either direction, nothing is closed, and new connections
    are accepted but never served. Both sides see the same as if every packet between them were
    lost.
    """

    def __init__(self, target_port):
        self.target_port = target_port
        self.port = None
        self.loop = asyncio.new_event_loop()
        self.started = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        if not self.started.wait(START_TIMEOUT_S):
            raise OSError("the proxy did not start")

    def silence(self):
        self.loop.call_soon_threadsafe(self._silence)

    def pass_on(self):
        """Bytes sent during the silence arrive after all, also on connections that one side has
        given up."""
        self.loop.call_soon_threadsafe(self._pass_on)

    def forget(self):
        """New connections pass; earlier ones are reset, as by a router that has lost its state."""
        self.loop.call_soon_threadsafe(self._forget)

    def close(self):
        if self.thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.thread.join(START_TIMEOUT_S)

    # In the proxy's thread.

    def _run(self):
        asyncio.set_event_loop(self.loop)
        self.passing = asyncio.Event()
        self.passing.set()
        self.writers = set()
        server = self.loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self.started.set()
        self.loop.run_forever()
        for writer in self.writers:
            writer.transport.abort()
        server.close()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()

    def _silence(self):
        self.passing.clear()

    def _pass_on(self):
        self.passing.set()

    def _forget(self):
        for writer in self.writers:
            writer.transport.abort()
        self.passing.set()

    async def _serve(self, reader, writer):
        self.writers.add(writer)
        upstream = None
        try:
            await self.passing.wait()
            upstream_reader, upstream = await asyncio.open_connection("127.0.0.1", self.target_port)
            self.writers.add(upstream)
            await asyncio.gather(self._pump(reader, upstream), self._pump(upstream_reader, writer))
        except OSError:
            pass  # If one side is closed, the other is closed too.
        finally:
            for each in filter(None, (writer, upstream)):
                self.writers.discard(each)
                each.transport.abort()

    async def _pump(self, reader, writer):
        while True:
            data = await reader.read(CHUNK_BYTES)
            await self.passing.wait()
            if not data:
                break
            writer.write(data)
            await writer.drain()
        with contextlib.suppress(OSError):
            writer.write_eof()
