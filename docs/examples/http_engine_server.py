"""A memory system behind the HTTP contract: keeps what users say, finds what shares a word. Python's library only."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

STORES = {}
DESCRIPTION = {"protocol": "1.0", "name": "word-memory", "version": "1", "concurrent": True}
DESCRIPTION |= {"stages": ["l1", "search", "qa"], "methods": ["load", "reset", "release"]}


def carry_out(method, body):
    if method in ("reset", "release"):
        return STORES.pop(body["store"], None) and None
    store = STORES.setdefault(body["store"], {})
    if method == "load":
        return store.update({memory["id"]: memory["content"] for memory in body["memories"]})
    if method == "ingest_session":
        return store.update({message["id"]: message["content"] for message in body["messages"]})
    if method == "extract":
        said = [one for one in body["conversation"] if one["role"] == "user" and one["content"].strip()]
        return [{"id": m["id"], "content": m["content"], "dimensions": ["identity"]} for m in said]
    words = set(body["query"].lower().split())  # search and retrieve
    scores = {key: len(words & set(text.lower().split())) for key, text in store.items()}
    best = sorted(scores, key=lambda key: (-scores[key], key))[:10]
    return [{"id": key, "score": scores[key], "content": store[key], "source_ids": [key]} for key in best]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer in one piece: in two, the second waits for the first to be acknowledged

    def do_GET(self):
        self.answer(200, DESCRIPTION)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            self.answer(200, {"result": carry_out(self.path.rpartition("/")[2], body)})
        except Exception as error:  # whatever it is, the caller gets an answer
            self.answer(500, {"error": {"kind": "word_memory", "message": f"{type(error).__name__}: {error}"}})

    def answer(self, status, data):
        text = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *args):
        pass


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
