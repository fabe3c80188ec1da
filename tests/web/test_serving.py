"""The page of a running hunt: who may read it, what it says, how it follows the hunt, and that it ends with it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest
from browser import CHROMIUM, browsing
from report_campaigns import CampaignMaker, at_s, plan, point, record
from rounds import written
from waiting import wait_until

from undermine.campaign.running import Notice
from undermine.cli.hunt import _live_page
from undermine.model.faults import Crash
from undermine.model.finding import Finding
from undermine.model.plan import Plan
from undermine.model.run import Receipt, Verdict
from undermine.web import pages, server
from undermine.web.server import CONNECTIONS_MAX
from undermine.web.serving import serving
from undermine.web.status import Session

HOSTILE = "</script><script>alert(1)</script>\x1b[31m\u202e"
WHERE = point("s1", "file.write", "shop.orders:save#1", HOSTILE)
LOST = Verdict("fail", f"data is lost {HOSTILE}", "data is lost", (), "ledger")


@pytest.fixture
def made(tmp_path: Path) -> Iterator[CampaignMaker]:
    made = CampaignMaker(tmp_path / "c")
    made.run("baseline", Plan(), verdicts=[Verdict.ok()])
    yield made
    made.close()


@pytest.fixture
def address(made: CampaignMaker) -> Iterator[str]:
    with serving(made.folder, 600) as address:
        yield address


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a page that nobody changes."""
    folder = CampaignMaker(tmp_path_factory.mktemp("quiet") / "c").close()
    with serving(folder, 600) as address:
        yield address


def ask(address: str, path: str = "", method: str = "GET", **headers: str) -> tuple[int, str, http.client.HTTPMessage]:
    url = urlsplit(address)
    connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=60)
    try:
        connection.request(method, path or url.path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers
    finally:
        connection.close()


def fail(made: CampaignMaker) -> None:
    """A failing run, and its finding."""
    what = plan(Crash(), WHERE)
    run = made.run("random", what, made=record(0, what, [Receipt(0, "s1", "crash", at_s(1))]), verdicts=[LOST])
    made.findings(Finding("F1", LOST.text, LOST.text, what, (run,), ("random",), (LOST,), undecided=True))


def begin(made: CampaignMaker) -> None:
    """A run that is under way."""
    made.store.begin_run(written(made.store, "random", [plan(Crash(), WHERE)])[0])


def test_the_page_is_the_report_with_what_happens_now(made: CampaignMaker, address: str) -> None:
    begin(made)
    fail(made)
    status, text, headers = ask(address)
    assert status == 200
    assert "The hunt is running" in text
    assert "of 10 min left" in text
    assert "random: crash before file.write &lt;/script&gt;" in text
    assert 'id="F1"' in text
    assert "connect-src 'self'" in text
    assert "<script>alert" not in text
    assert "\u202e" not in text
    assert (headers["Referrer-Policy"], headers["Cache-Control"]) == ("no-referrer", "no-store")


def test_the_status_follows_the_hunt(made: CampaignMaker, address: str) -> None:
    def status() -> dict[str, object]:
        found: dict[str, object] = json.loads(ask(address, urlsplit(address).path + "status")[1])
        return found

    assert (status()["runs"], status()["now"], status()["findings"]) == (1, [], [])
    begin(made)
    fail(made)
    wait_until(lambda: status()["runs"] == 2)
    (now,), (finding,) = status()["now"], status()["findings"]  # type: ignore[misc,attr-defined]
    assert now["run"] == 2
    assert "\x1b" not in now["words"]
    assert (finding["id"], finding["badge"]) == ("F1", "suspected, to be confirmed")


def test_only_the_token_opens_the_page(quiet: str) -> None:
    path = urlsplit(quiet).path
    others = ["/", "/status", path.rstrip("/"), path[:-2] + "/", path + "../", path + "campaign.db", "/%00/"]
    assert {ask(quiet, other)[:2] for other in others} == {(404, "not found\n")}
    assert ask(quiet, path + "?x")[0] == 200


def test_a_foreign_host_name_is_refused(quiet: str) -> None:
    assert ask(quiet, Host="rebound.example")[0] == 404
    assert ask(quiet, Host=f"localhost:{urlsplit(quiet).port}")[0] == 200


def test_nothing_can_be_sent(quiet: str) -> None:
    assert {ask(quiet, method=method)[0] for method in ("POST", "PUT", "DELETE", "OPTIONS")} == {501}
    status, text, headers = ask(quiet, method="HEAD")
    assert (status, text) == (200, "")
    assert int(headers["Content-Length"]) > 10_000


def test_it_listens_on_one_address_of_loopback_only(quiet: str) -> None:
    port = urlsplit(quiet).port or 0
    for other in ("127.0.0.2", "::1"):
        with pytest.raises(OSError, match=r"refused|not available|unreachable|not supported"):
            socket.create_connection((other, port), timeout=60)


def test_there_are_only_so_many_connections(address: str) -> None:
    assert ask(address)[0] == 200
    port = urlsplit(address).port or 0
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(CONNECTIONS_MAX)]
    with socket.create_connection(("127.0.0.1", port), timeout=60) as one_more:
        assert one_more.recv(1) == b"", "closed at once"
    for each in silent:
        each.close()
    wait_until(lambda: ask(address)[0] == 200, meanwhile=(OSError, http.client.HTTPException))


def test_a_request_that_does_not_end_is_cut_off(made: CampaignMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_CONNECTION_S", 0.2)
    with (
        socket.create_server((server.LOOPBACK, 0)) as listening,
        contextlib.closing(pages.Pages(made.folder, Session(0, 600))) as served,
        socket.create_connection(listening.getsockname(), timeout=0.02) as slow,
    ):
        serving_it = server.Server(listening, "token", served)
        threading.Thread(target=serving_it.serve_forever, args=(0.05,)).start()
        try:
            assert any(is_cut_off(slow) for _ in range(500))
        finally:
            serving_it.shutdown()


def is_cut_off(slow: socket.socket) -> bool:
    """Send one more byte. Has the other side ended the connection?"""
    try:
        slow.send(b"x")
        return slow.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def gone(address: str) -> bool:
    try:
        ask(address)
    except ConnectionRefusedError:
        return True
    except (OSError, http.client.HTTPException):
        pass
    return False


def test_it_ends_with_the_hunt(made: CampaignMaker) -> None:
    with serving(made.folder, 600) as address:
        assert ask(address)[0] == 200
    assert gone(address)
    assert (made.folder / "web.log").read_text() == ""


def test_it_ends_when_the_hunt_is_killed(made: CampaignMaker) -> None:
    script = (
        "import sys, time, pathlib\nfrom undermine.web.serving import serving\n"
        "with serving(pathlib.Path(sys.argv[1]), 600) as address:\n    print(address, flush=True)\n    time.sleep(600)"
    )
    hunt = subprocess.Popen([sys.executable, "-c", script, str(made.folder)], stdout=subprocess.PIPE, text=True)
    assert hunt.stdout
    address = hunt.stdout.readline().strip()
    assert ask(address)[0] == 200
    os.kill(hunt.pid, signal.SIGKILL)
    hunt.wait()
    hunt.stdout.close()
    wait_until(lambda: gone(address))


def test_a_page_that_cannot_be_made_is_said(made: CampaignMaker, address: str) -> None:
    made.store.set_meta("impossible", "damaged")
    status, text, _ = ask(address)
    assert status == 503
    assert "web.log" in text
    assert "AttributeError" in (made.folder / "web.log").read_text()


def test_a_hunt_says_where_its_page_is(made: CampaignMaker) -> None:
    news: list[Notice] = []
    with _live_page(news.append, 600, json=False) as listener:
        listener(Notice("campaign", "campaign c", {"folder": str(made.folder)}))
        assert [each.kind for each in news] == ["campaign", "page"]
        address = news[1].data["address"]
        assert news[1].text == f"live report: {address}"
        assert ask(address)[0] == 200
    assert gone(address)


def test_a_page_that_cannot_be_served_does_not_stop_the_hunt(made: CampaignMaker, tmp_path: Path) -> None:
    news: list[Notice] = []
    with _live_page(news.append, 600, json=False) as listener:
        listener(Notice("campaign", "campaign c", {"folder": str(tmp_path / "nowhere")}))
    assert [each.kind for each in news] == ["campaign", "warning"]


def test_content_is_made_once_while_it_is_current() -> None:
    made: list[int] = []

    def make() -> bytes:
        made.append(1)
        return b"%d" % len(made)

    kept = pages._Kept(make, 1e9)
    threads = [threading.Thread(target=kept.content) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert kept.content() == b"1"
    outdated = pages._Kept(make, 0)
    outdated.content()
    wait_until(lambda: outdated.content() != b"2")


@pytest.mark.skipif(not CHROMIUM, reason="needs a Chromium")
def test_the_open_page_shows_new_findings_and_the_end(made: CampaignMaker, tmp_path: Path) -> None:
    with contextlib.ExitStack() as hunt:
        address = hunt.enter_context(serving(made.folder, 600))
        with browsing(address, tmp_path / "profile") as shown:
            shown.until("document.readyState === 'complete' && location.protocol === 'http:'")
            begin(made)
            fail(made)
            shown.until("document.querySelector('#live-now li').textContent.includes('crash before file.write')")
            shown.until("document.querySelector('#live-findings').textContent.startsWith('F1data is lost </script>')")
            assert shown.ask("document.querySelector('#live-news').textContent") == "1 new or changed finding"
            shown.ask("document.querySelector('#live-findings a').click()")
            shown.until("document.readyState === 'complete' && document.querySelector('#F1.card') !== null")
            assert shown.ask("location.hash") == "#F1"
            made.findings(msgspec.structs.replace(made.store.findings()[0], undecided=False, tries=2, hits=2))
            shown.until("document.querySelector('#live-findings').textContent.endsWith('reproduced 2 of 2')")
            assert not shown.errors
            hunt.close()
            shown.until("document.querySelector('#live-state').textContent === 'The hunt has ended'")
