"""What a stage may do: programs, functions and calls that are listed, and their ends."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.processes import is_soon_gone

from pointsman.errors import InputError
from pointsman.storage.policies.action_written import Action, HttpCall
from pointsman.storage.policies.settings import WorkflowSettings
from pointsman.workflows.actions import ActionRunner, host_of, is_loopback

ALL = WorkflowSettings(commands=("cat", "sh", "sleep"), python=("stages",), timeout_s=20)


class TestActions:
    """What may be done, and how it ends."""

    @pytest.mark.parametrize(
        ("action", "what"),
        [
            (Action(shell=("rm", "-rf", "x")), "the program `rm`"),
            (Action(shell=("/bin/cat",)), "the program `/bin/cat`"),
            (Action(python="os:getcwd"), "the module `os`"),
            (Action(http=HttpCall("https://example.org/x")), "the host `example.org`"),
            (Action(http=HttpCall("http://example.org:81/x")), "the host `example.org:81`"),
        ],
    )
    def test_what_is_not_listed_is_refused(self, tmp_path: Path, action: Action, what: str) -> None:
        with pytest.raises(InputError, match=r"is not listed in pointsman\.yaml") as caught:
            ActionRunner(ALL, tmp_path).perform(action, {})
        assert caught.value.message.startswith(what)
        assert caught.value.hint.startswith("add it to pointsman.yaml")

    def test_words_go_to_a_program_as_they_are(self, tmp_path: Path) -> None:
        words = ("sh", "-c", 'printf "%s" "$1"', "sh", "{{ name }}")
        done = ActionRunner(ALL, tmp_path).perform(Action(shell=words), {"name": "$(id); `id` *"})
        assert (done.is_done, done.output) == (True, "$(id); `id` *")

    def test_a_program_sees_the_context_and_few_of_our_names(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SECRET_TOKEN", "hunter2")
        shell = ("sh", "-c", "cat; env")
        done = ActionRunner(ALL, tmp_path, {"POINTSMAN_RUN": "r"}).perform(
            Action(shell=shell), {"a": 1}
        )
        assert str(done.output).startswith('{"a":1}')
        assert "POINTSMAN_RUN=r" in str(done.output)
        assert "hunter2" not in str(done.output)

    def test_a_program_that_takes_too_long_is_killed_with_its_children(
        self, tmp_path: Path
    ) -> None:
        shell = ("sh", "-c", "sleep 60 & echo $! > child; wait")
        begun = time.monotonic()
        done = ActionRunner(ALL, tmp_path).perform(Action(shell=shell, timeout="500ms"), {})
        assert (done.is_done, done.message) == (False, "took longer than 0.5 seconds")
        assert time.monotonic() - begun < 10
        child = int((tmp_path / "child").read_text())
        assert is_soon_gone(child)

    @pytest.mark.parametrize(
        ("action", "message"),
        [
            (Action(shell=("cat", "{{ gone.far }}")), "missing `gone.far`"),
            (Action(shell=("sh", "-c", "echo no >&2; exit 3")), "ended with 3: no"),
            (Action(shell=("sh", "-c", "yes | head -c 300000")), "gave more than 262144 bytes"),
            (Action(shell=("sh", "-c", "echo {"), parse="json"), "config.syntax"),
            (Action(shell=("cat", "{{ a }}")), "is no text, number or truth value"),
            (Action(http=HttpCall("http://127.0.0.1:9/x")), "the call failed"),
        ],
    )
    def test_what_goes_wrong_is_told(self, tmp_path: Path, action: Action, message: str) -> None:
        done = ActionRunner(ALL, tmp_path).perform(action, {"a": {"b": 1}})
        assert not done.is_done
        assert message in done.message

    def test_a_call_of_this_machine_sends_and_takes_json(self, tmp_path: Path) -> None:
        with _Server() as server:
            call = HttpCall(f"{server.url}/echo?x=1", json={"n": "{{ n }}", "list": [1, "two"]})
            done = ActionRunner(ALL, tmp_path).perform(Action(http=call, parse="json"), {"n": 3})
            assert done.output == {"path": "/echo?x=1", "body": '{"n":3,"list":[1,"two"]}'}
            moved = Action(http=HttpCall(f"{server.url}/moved", method="GET"))
            assert ActionRunner(ALL, tmp_path).perform(moved, {}).message == "the answer was 302"

    def test_hosts_are_read_as_they_are_written(self) -> None:
        assert host_of("http://localhost:8080/x") == "localhost:8080"
        assert host_of("https://a.example:443/") == "a.example"
        assert [is_loopback(each) for each in ("localhost:1", "127.9.9.9", "::1", "10.0.0.1")] == [
            True, True, True, False,
        ]  # fmt: skip
        for bad in ("http://user:pw@localhost/", "http://[", "http:///x"):
            with pytest.raises(InputError):
                host_of(bad)


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(302)
        self.send_header("location", "http://example.org/")
        self.end_headers()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        answer = json.dumps({"path": self.path, "body": body})
        self.send_response(200)
        self.end_headers()
        self.wfile.write(answer.encode())

    def log_message(self, *args: Any) -> None:
        pass


class _Server:
    def __enter__(self) -> "_Server":
        self._server = HTTPServer(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
