"""The page: whole, readable in both schemes, true to the judge, and deaf to what strangers write into it."""

from __future__ import annotations

import base64
import gzip
import itertools
import json
import math
import re
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from justhtml import JustHTML
from simulatedrun import DRAFTER, NOTE, PROBE, Simulation

from specdecode_operator.api.errors import InvalidObject
from specdecode_operator.gates.told import LENGTHS
from specdecode_operator.gates.verdict import percent
from specdecode_operator.plan.canary.record import Ended, Record
from specdecode_operator.report import page as pages
from specdecode_operator.report import palette, words
from specdecode_operator.report.case import Case, case_of
from specdecode_operator.report.escape import clean
from specdecode_operator.report.page import page

ROOM = Path(pages.__file__).parent
METRICS = (DRAFTER, PROBE, LENGTHS)
LOADING = {"script", "link", "img", "image", "iframe", "object", "embed", "audio", "video", "use", "base", "form", "a"}
"""Elements that fetch something, lead somewhere, or run."""


def parsed(text: str) -> JustHTML:
    """The page, if a strict parser of the standard takes it."""
    return JustHTML(text, strict=True, sanitize=False)


@pytest.fixture(scope="module")
def html(case: Case) -> str:
    return page(case, note=NOTE)


# --- One file, whole --------------------------------------------------------------------------------------------------


def test_a_strict_parser_finds_nothing_wrong(html: str) -> None:
    assert parsed(html).errors == []


def test_the_verdict_comes_first_in_a_sentence(html: str) -> None:
    document = parsed(html)
    (first,) = document.query("h1")
    assert first.to_text().startswith(
        "Pass Revision b81e6a7c04 passed: it is no worse than the margin allows on both gates"
    )
    assert html.index("<h1>") < html.index("<h2>")


def test_every_part_that_a_reader_may_look_for_is_there(html: str) -> None:
    wanted = [
        "Timeline", "Gates of step 2", "Controls", "What was left out", "Acceptance by position", "Tokens a second",
        "Earlier steps", "The registered plan", "Queries",
    ]  # fmt: skip
    assert [heading.to_text() for heading in parsed(html).query("h2")] == wanted


def test_headings_go_down_one_level_at_a_time(html: str) -> None:
    levels = [int(level) for level in re.findall(r"<h([1-6])>", html)]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))


def test_each_picture_says_in_words_what_it_shows(html: str) -> None:
    pictures = parsed(html).query("svg")
    assert len(pictures) > 10
    for each in pictures:
        (title,) = each.query("title")[:1]
        assert each.attrs["role"] == "img"
        assert each.attrs["aria-label"] == title.to_text() != ""


def test_nothing_is_fetched_and_nothing_runs(html: str) -> None:
    document = parsed(html)
    elements = document.query("*")
    assert LOADING.isdisjoint({each.name for each in elements})
    attributes = {name for each in elements for name in each.attrs}
    assert not {name for name in attributes if name.startswith("on") or name in ("src", "href", "style", "srcset")}
    assert "url(" not in html
    assert "@import" not in html
    policy = next(each for each in document.query("meta") if "http-equiv" in each.attrs)
    assert policy.attrs["content"].startswith("default-src 'none';")


# --- Colours ----------------------------------------------------------------------------------------------------------


def luminance(colour: str) -> float:
    """Relative luminance, WCAG 2.2."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """WCAG 2.2: from 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [palette.LIGHT, palette.DARK], ids=["light", "dark"])
def test_words_and_marks_stand_out_in_both_schemes(scheme: dict[str, str]) -> None:
    weak = [
        (name, below, round(contrast(scheme[name], scheme[below]), 2))
        for names, least in ((palette.TEXT, 4.5), (palette.SHAPES, 3.0))
        for name in names
        for below in ("paper", "panel")
        if contrast(scheme[name], scheme[below]) < least
    ]
    assert weak == []
    assert contrast(scheme["ink"], scheme["harm-fill"]) >= 4.5
    assert contrast(scheme["harm"], scheme["harm-fill"]) >= 3.0


def test_both_schemes_name_the_same_colours_and_no_rule_has_one_of_its_own() -> None:
    assert palette.LIGHT.keys() == palette.DARK.keys()
    rules = (ROOM / "page.css.j2").read_text()
    used = set(re.findall(r"var\(--([a-z-]+)\)", rules))
    assert used <= palette.LIGHT.keys()
    assert set(palette.LIGHT) - used == set()
    assert not re.search(r"#[0-9a-fA-F]{3,8}\b|rgb\(|hsl\(", rules)


def test_paper_is_light_whatever_the_screen_was(html: str) -> None:
    dark = html.index(palette.DARK["paper"])
    assert "@media screen and (prefers-color-scheme: dark)" in html[:dark]


# --- True to the judge ------------------------------------------------------------------------------------------------


def test_each_gate_s_numbers_are_the_judge_s(html: str, case: Case) -> None:
    text = parsed(html).to_text()
    for step in case.steps:
        assert step.judged is not None
        for gate in step.judged.verdict.gates:
            assert gate.sentence in text
            assert percent(gate.estimate) in text
            for reason, arms in gate.spent.items():
                assert re.search(rf"{reason}\s+{arms.stable:g}\s+{arms.candidate:g}\s", text)


def test_the_plan_s_digest_and_all_of_the_plan_are_in_it(html: str, case: Case) -> None:
    document = parsed(html)
    assert document.query("code.digest")[0].to_text() == case.record.plan
    assert json.loads(document.query("pre")[0].to_text()) == json.loads(case.text)


def test_queries_ask_for_all_windows_of_both_revisions_and_nothing_extrapolated(html: str, case: Case) -> None:
    shown = parsed(html).query("pre")[-1].to_text().split("\n\n")
    plan = case.last.plan
    assert plan is not None
    end = plan.windows.start + 30 * plan.windows.seconds
    assert all(query.endswith(f"@ {end:.3f}") for query in shown)
    assert all('namespace="simulated", specdecode_name="chat"' in query for query in shown)
    assert all(plan.stable.revision in query and plan.candidate.revision in query for query in shown)
    assert {gate.span.metric for gate in plan.gates} <= {metric for metric in METRICS if f'"{metric}' in str(shown)}


def test_what_was_checked_holds_for_a_whole_record(html: str) -> None:
    checks = [each.to_text() for each in parsed(html).query(".checks li")]
    assert len(checks) == 5
    assert all(each.startswith("Checked:") for each in checks)


def test_a_record_whose_samples_were_changed_does_not_hold(record: list[dict[str, Any]]) -> None:
    maps = deepcopy(record)
    packed = maps[1]["binaryData"]
    lines = gzip.decompress(base64.b64decode(packed["samples-2.jsonl.gz"])).decode().splitlines()
    slower = [line if "b81e6a7c04" not in line else scaled(line) for line in lines]
    packed["samples-2.jsonl.gz"] = base64.b64encode(gzip.compress("\n".join(slower).encode())).decode()
    broken = [each.to_text() for each in parsed(page(case_of(maps))).query(".checks .broken")]
    assert broken == ["Does not hold: step 2's recorded samples give its recorded verdict again"]


def scaled(line: str) -> str:
    data = json.loads(line)
    return json.dumps(data | {"sum": 1.1 * data["sum"]} if "gpu" in data["metric"] else data)


def test_a_plan_that_is_not_the_registered_one_is_said_first(record: list[dict[str, Any]]) -> None:
    maps = deepcopy(record)
    maps[0]["data"]["plan.json"] = maps[0]["data"]["plan.json"].replace('"margin":0.02', '"margin":0.2')
    maps[1]["binaryData"] = {}
    broken = [each.to_text() for each in parsed(page(case_of(maps))).query(".checks .broken")]
    assert broken[0] == "Does not hold: the registered plan is gone, or not the one that the record names"


# --- Whatever a run comes to ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "reason", "said"),
    [
        ("Pass", "WithinMargin", "passed"),
        ("Fail", "BeyondMargin", "failed: the candidate is worse than the margin allows"),
        ("Inconclusive", "Undecided", "neither proven nor refuted"),
        ("Invalid", "PlanChanged", "shows nothing, in either direction: PlanChanged"),
        ("Promoted", "ByRequest", "was promoted by a person, not by evidence"),
        ("Aborted", "ByRequest", "was stopped by a person"),
        ("Aborted", "NeverReady", "was stopped (NeverReady)"),
        ("Cancelled", "SpecChanged", "was cancelled"),
    ],
)
def test_every_end_has_its_sentence_and_what_it_asks(case: Case, outcome: Any, reason: str, said: str) -> None:
    ended = Ended(outcome=outcome, reason=reason, message="Said.", at=datetime(2026, 3, 2, 11, tzinfo=UTC))
    document = parsed(page(of_record(case, case.record.model_copy(update={"ended": ended}))))
    assert said in document.query("h1")[0].to_text()
    assert words.ASKS[outcome] in document.to_text()


def of_record(case: Case, record: Record) -> Case:
    """The run as another record would have it, without its gates: what is tested is what is said of the whole."""
    steps = tuple(replace(step, judged=None) for step in case.steps)
    return replace(case, run=replace(case.run, record=record), steps=steps)


def test_a_run_that_goes_on_says_that_nothing_is_decided(case: Case) -> None:
    document = parsed(page(of_record(case, case.record.model_copy(update={"ended": None}))))
    assert "Nothing is decided yet" in document.query("h1")[0].to_text()
    assert "step 2 of 2, 30 of 80 windows" in document.query("h1")[0].to_text()


def test_a_run_that_was_only_registered_has_a_page(record: list[dict[str, Any]], case: Case) -> None:
    maps = deepcopy(record)
    begun = case.record.model_copy(update={"steps": (None,), "ended": None})
    maps[1] = {**maps[1], "data": {"run.json": begun.model_dump_json(by_alias=True)}, "binaryData": {}}
    text = parsed(page(case_of(maps))).to_text()
    assert "its slots never all served" in text
    assert "No window of this step has been judged." in text


def test_a_regression_s_page_names_gate_size_and_margin() -> None:
    failed = case_of(Simulation(effect=math.log(2), pods=7, slots=((2, 12),)).config_maps())
    (first,) = parsed(page(failed)).query("h1")
    assert first.to_text().startswith("Fail Revision b81e6a7c04 failed: on gate drafter the candidate was far")
    assert re.search(r"\+(69|70)\.\d\d%", first.to_text())
    assert "against a margin of 2%" in first.to_text()


# --- Strangers --------------------------------------------------------------------------------------------------------

HOSTILE = '</title></style></svg><script>alert("1")</script><img src=x onerror=alert(2)>"\'{{ 7*7 }}{% raw %}'


def test_names_and_messages_of_strangers_stay_text() -> None:
    maps = Simulation(
        pods=7, slots=((2, 10),), stable=f"s{HOSTILE}", candidate=f"c{HOSTILE}", tray=f"t{HOSTILE}", run=f"r{HOSTILE}"
    ).config_maps()
    record = json.loads(maps[1]["data"]["run.json"])
    record["ended"] |= {"message": f"m{HOSTILE}\x00\x1b[31m\u202egnp", "reason": f"x{HOSTILE}"}
    maps[1]["data"]["run.json"] = json.dumps(record)
    text = page(case_of(maps), note=f"n{HOSTILE}")
    document = parsed(text)
    assert document.query("script, img") == []
    assert not [name for each in document.query("*") for name in each.attrs if name.startswith("on")]
    assert f"s{HOSTILE}" in document.to_text()
    assert f"n{HOSTILE}" in document.query(".note")[0].to_text()
    assert f"m{HOSTILE}\N{REPLACEMENT CHARACTER}" in document.to_text()
    assert not set(text) & set("\x00\x1b\u202e")


def test_what_can_t_be_seen_is_replaced_by_what_can() -> None:
    assert clean("a\u202eb\x07c\ud800d\u200be\n") == "a�b�c�d�e\n"


@pytest.mark.parametrize(
    ("looks", "allowed"),
    [
        (gzip.compress(b"x" * 200 * 1024 * 1024, 1), "gzip of at most"),
        (b"\x1f\x8bnot gzip", "gzip of at most"),
        (gzip.compress(b"[1]\n"), "one look a line"),
        (gzip.compress(b"[" * 100_000), "one look a line"),
    ],
    ids=["unpacks without end", "not gzip", "not an object", "deeply nested"],
)
def test_looks_that_are_none_are_a_clear_error(record: list[dict[str, Any]], looks: bytes, allowed: str) -> None:
    maps = deepcopy(record)
    maps[1]["binaryData"] = {"looks-2.jsonl.gz": base64.b64encode(looks).decode()}
    with pytest.raises(InvalidObject, match=allowed):
        case_of(maps)


# --- The document -----------------------------------------------------------------------------------------------------

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "report.md"


def test_the_worked_example_s_numbers_are_on_its_page(html: str) -> None:
    text = DOCUMENT.read_text()
    example = text[text.index("## A worked example") : text.index("## Choosing margins")]
    numbers = re.findall(r"[-+]?\d+\.\d+%?|\d,\d{3}", example)
    shown = parsed(html).to_text()
    assert len(numbers) > 12
    assert [number for number in numbers if number.replace(",", "") not in shown] == []


def test_each_part_of_the_page_has_its_row_in_the_document(html: str) -> None:
    rows = re.findall(r"^\| ([A-Z][^|]+?) \|", DOCUMENT.read_text(), re.MULTILINE)
    parts = [re.sub(r" of step \d", "", heading.to_text()) for heading in parsed(html).query("h2")]
    assert [part for part in parts if part not in rows and part != "Earlier steps"] == []


def test_each_outcome_has_its_row_in_the_document() -> None:
    text = DOCUMENT.read_text()
    table = text[text.index("## What each verdict asks of you") :]
    described = {word for row in re.findall(r"^\| ([A-Z][\w, ]+) \|", table, re.MULTILINE) for word in row.split(", ")}
    assert described == set(words.ASKS) - {"Going on"}
