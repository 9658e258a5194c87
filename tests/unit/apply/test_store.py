"""The store: newest version wins, deleted stays deleted, owners are told."""

from typing import Any

import pytest

from specdecode_operator.api import names
from specdecode_operator.apply.kinds import POD, REPLICA_SET
from specdecode_operator.apply.store import Key, Store

Json = dict[str, Any]
OWNER = Key("serving", "demo")


def item(name: str = "a", version: int = 1, uid: str = "u1", owner: str = "demo") -> Json:
    return {
        "metadata": {
            "name": name,
            "namespace": "serving",
            "uid": uid,
            "resourceVersion": str(version),
            "labels": {names.LABEL_NAME: owner},
        }
    }


class Told(list[Key]):
    def take(self) -> list[Key]:
        seen = list(self)
        self.clear()
        return seen


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def store(told: Told) -> Store:
    return Store(told.append)


def test_a_new_version_is_taken_and_its_owner_told(store: Store, told: Told) -> None:
    store.seen(POD, item(version=1))
    store.seen(POD, item(version=2))
    assert store.of(POD, OWNER)[0]["metadata"]["resourceVersion"] == "2"
    assert told.take() == [OWNER, OWNER]


def test_an_older_version_changes_nothing(store: Store, told: Told) -> None:
    store.seen(POD, item(version=5))
    told.clear()
    store.seen(POD, item(version=3))
    assert store.of(POD, OWNER)[0]["metadata"]["resourceVersion"] == "5"
    assert told.take() == []


def test_ones_own_write_is_read_back_at_once_and_wakes_nobody(store: Store, told: Told) -> None:
    store.written(REPLICA_SET, item(version=7))
    assert store.of(REPLICA_SET, OWNER)
    assert told.take() == []


def test_a_late_answer_does_not_bring_a_deleted_object_back(store: Store) -> None:
    store.seen(POD, item(version=1))
    store.gone(POD, item(version=3))
    store.written(POD, item(version=2))
    assert store.of(POD, OWNER) == []


def test_a_successor_of_the_same_name_is_another_object(store: Store) -> None:
    store.seen(POD, item(version=5, uid="old"))
    store.seen(POD, item(version=9, uid="new"))
    store.gone(POD, item(version=8, uid="old"))
    assert [each["metadata"]["uid"] for each in store.of(POD, OWNER)] == ["new"]


def test_a_list_drops_what_is_no_longer_there(store: Store, told: Told) -> None:
    store.seen(POD, item("a", 1))
    store.seen(POD, item("b", 2, "u2"))
    told.clear()
    store.replace(POD, None, [item("b", 2, "u2")], "5")
    assert [each["metadata"]["name"] for each in store.of(POD, OWNER)] == ["b"]
    assert told.take() == [OWNER]


def test_a_list_keeps_what_was_written_after_it(store: Store) -> None:
    store.written(POD, item("a", 9))
    store.replace(POD, None, [], "5")
    assert store.of(POD, OWNER)


def test_a_list_of_one_namespace_leaves_the_others(store: Store) -> None:
    store.seen(POD, item("a", 1))
    store.replace(POD, "elsewhere", [], "5")
    assert store.of(POD, OWNER)


def test_an_absent_kind_holds_nothing(store: Store) -> None:
    store.seen(POD, item("a", 1))
    store.replace(POD, None, [], "")
    assert store.count(POD) == 0


def test_an_item_whose_label_changes_leaves_its_first_owner_who_is_told(store: Store, told: Told) -> None:
    store.seen(POD, item(version=1))
    told.clear()
    store.seen(POD, item(version=2, owner="other"))
    assert set(told.take()) == {OWNER, Key("serving", "other")}
    assert store.of(POD, OWNER) == []
    assert store.of(POD, Key("serving", "other"))
