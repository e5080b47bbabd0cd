"""Serves the files of a folder on a free port of the loopback device.

usage: file_server.py FOLDER LOG

Prints the port. Each request becomes a line of LOG: path and range. The first
part of a path says how the server behaves: /ranges/NAME, /no-ranges/NAME, which
sends all whatever is asked for, /cut/NAME, which breaks off half-way, or
/longer/NAME, which sends a byte too many.
"""
import http.server
import pathlib
import sys


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        wanted = self.headers.get("Range", "")
        with open(sys.argv[2], "a") as log:
            print(self.path, wanted, file=log)
        behaviour, _, name = self.path[1:].partition("/")
        path = pathlib.Path(sys.argv[1]) / name
        if not path.is_file():
            return self.send_error(404)
        data = path.read_bytes()
        if behaviour == "longer":
            data += b"x"
        begin = 0
        if wanted and behaviour != "no-ranges":
            begin = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if begin >= len(data):
                return self.send_error(416)
        self.send_response(206 if begin else 200)
        self.send_header("Content-Length", str(len(data) - begin))
        self.end_headers()
        data = data[begin:]
        self.wfile.write(data[: len(data) // 2] if behaviour == "cut" else data)

    def log_message(self, *_):
        pass


server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
