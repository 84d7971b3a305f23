"""A client process: reads what to ask, asks it, and says what it was answered. Imports little."""

from __future__ import annotations

import http.client
import json
import sys
import time


def asked(port: int, body: bytes, headers: dict[str, str]) -> dict[str, object]:
    """Ask once; what never came is an answer, too."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        client.request("POST", "/v1/chat/completions", body, headers)
        answer = client.getresponse()
        text = answer.read()
        said = dict(answer.headers)
        return {
            "status": answer.status,
            "decision": said.get("x-pointsman-decision", ""),
            "model": said.get("x-pointsman-model", ""),
            "code": "" if answer.status == 200 else _code(text),
        }
    except (OSError, http.client.HTTPException) as error:
        return {"status": 0, "decision": "", "model": "", "code": type(error).__name__}
    finally:
        client.close()


def _code(text: bytes) -> str:
    try:
        return str(json.loads(text)["error"]["code"])
    except (ValueError, KeyError, TypeError):
        return "unreadable"


def main() -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        told = json.loads(line)
        ports, found = told["ports"], []
        headers = {"content-type": "application/json", "x-session-id": told["session"]}
        if told.get("key"):
            headers["authorization"] = f"Bearer {told['key']}"
        until = time.monotonic() + told.get("seconds", 0)
        for count in range(told["calls"]):
            message = {"role": "user", "content": f"{told['client']} asks {count}"}
            body = {"model": told.get("model", "auto"), "messages": [message]}
            body["max_tokens"] = told.get("max_tokens", 50)
            body["stream"] = told.get("stream", False)
            data = json.dumps(body).encode()
            found.append(asked(ports[count % len(ports)], data, headers))
            if told.get("seconds") and time.monotonic() > until:
                break
            if found[-1]["status"] in (0, 503):
                time.sleep(0.02)
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
