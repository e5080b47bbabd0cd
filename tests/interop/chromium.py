"""A page in a headless Chromium, by the protocol of its developer tools."""
import base64
import contextlib
import json
import pathlib
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import websocket

PATIENCE = 120  # s


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
        self.errors = []  # of scripts and of the console, once watched

    def call(self, method, **parameters):
        self.calls += 1
        self.socket.send(json.dumps(
            {"id": self.calls, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self.socket.recv())
            if answer.get("id") == self.calls:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self._note(answer)

    def _note(self, event):
        name, told = event.get("method"), event.get("params", {})
        if name == "Runtime.exceptionThrown":
            thrown = told["exceptionDetails"]
            self.errors.append(thrown.get("exception", {}).get(
                "description", thrown["text"]))
        elif name == "Runtime.consoleAPICalled" and told["type"] in (
                "error", "assert"):
            self.errors.append(json.dumps(told["args"]))
        elif name == "Log.entryAdded" and told["entry"]["level"] == "error":
            self.errors.append(told["entry"]["text"])

    def watch_errors(self):
        self.call("Runtime.enable")
        self.call("Log.enable")

    def open(self, url):
        self.call("Page.navigate", url=url)
        until("the page", lambda: self.evaluate(
            f"document.readyState === 'complete' && "
            f"location.href.split('#')[0] === {json.dumps(url)}"))

    def resize(self, width, height, is_dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width,
                  height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme",
             "value": "dark" if is_dark else "light"}])

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression,
                           awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, x, y):
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y,
                      button="left", clickCount=1)

    def point_at(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def take_picture(self, path, clip=None):
        """`clip`: (x, y, width, height) of the page; or what the window shows."""
        options = {} if clip is None else {
            "captureBeyondViewport": True,
            "clip": dict(zip(("x", "y", "width", "height"), clip), scale=1)}
        picture = self.call("Page.captureScreenshot", format="png", **options)
        pathlib.Path(path).write_bytes(base64.b64decode(picture["data"]))


@contextlib.contextmanager
def opened(url):
    """A Page of a Chromium that ends with it."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = subprocess.Popen(
            ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu",
             "--remote-debugging-port=0", "--window-size=1400,700",
             f"--user-data-dir={folder}", url],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield Page(pathlib.Path(folder))
        finally:
            browser.terminate()
            browser.wait()
