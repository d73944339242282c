"""Questions about an embedded database, each with its gold query.

A question says exactly what the query does: which columns, in which order, and what decides where values tie.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from envgym.worlds.database_schemas import Entity, Measure, Subject

RowsOf: TypeAlias = Mapping[str, Sequence[Mapping[str, str | int]]]
"""Table name to rows, each a mapping from column to value."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question, its gold query and the skill it needs."""

    kind: str
    text: str
    gold: str


@dataclass(frozen=True, slots=True)
class Topic:
    """What a question is about: one entity of a subject, and the rows that words can be taken from."""

    subject: Subject
    entity: Entity
    rows: RowsOf
    rng: np.random.Generator

    @property
    def owner(self) -> Entity:
        """The entity that this one's rows belong to."""
        owner = self.subject.owner(self.entity)
        assert owner is not None  # asked of entities that have one
        return owner

    @property
    def join(self) -> str:
        """The entity's table ``t`` and its owner's ``o``, joined."""
        return f"{self.entity.one} AS t JOIN {self.owner.one} AS o ON t.{self.owner.one}_id = o.id"

    def measure(self) -> Measure:
        """Any of the entity's measures."""
        return self.entity.measures[int(self.rng.integers(len(self.entity.measures)))]

    def value(self, entity: Entity, column: str) -> str | int:
        """Any value of a column."""
        rows = self.rows[entity.one]
        return rows[int(self.rng.integers(len(rows)))][column]

    def middle(self, measure: Measure) -> int:
        """A threshold that some of the entity's rows lie above, and some below."""
        values = sorted(int(row[measure.column]) for row in self.rows[self.entity.one])
        return values[int(self.rng.integers(len(values) // 4, 3 * len(values) // 4))]


def count_all(topic: Topic) -> Question:
    """Count a table."""
    entity = topic.entity
    return Question("count", f"How many {entity.many} are there?", f"SELECT count(*) FROM {entity.one}")


def count_category(topic: Topic) -> Question:
    """Count the rows of a category."""
    entity, category = topic.entity, topic.entity.category
    value = topic.value(entity, category.column)
    return Question(
        "count",
        f"How many {entity.many} have the {category.phrase} '{value}'?",
        f"SELECT count(*) FROM {entity.one} WHERE {category.column} = '{value}'",
    )


def list_above(topic: Topic) -> Question:
    """List the rows above a threshold."""
    entity, measure = topic.entity, topic.measure()
    bound = topic.middle(measure)
    return Question(
        "order",
        f"List the names of all {entity.many} whose {measure.phrase} is above {bound}, in alphabetical order.",
        f"SELECT name FROM {entity.one} WHERE {measure.column} > {bound} ORDER BY name",
    )


def list_by_measure(topic: Topic) -> Question:
    """List the rows of a category, ordered by a measure."""
    entity, category, measure = topic.entity, topic.entity.category, topic.measure()
    value = topic.value(entity, category.column)
    return Question(
        "order",
        f"Give the name and the {measure.phrase} of each of the {entity.many} "
        f"with the {category.phrase} '{value}', from the highest {measure.phrase} to the lowest.",
        f"SELECT name, {measure.column} FROM {entity.one} WHERE {category.column} = '{value}' "
        f"ORDER BY {measure.column} DESC",
    )


def extreme(topic: Topic) -> Question:
    """Name the row with the highest or lowest measure."""
    entity, measure = topic.entity, topic.measure()
    word, direction = (("highest", "DESC"), ("lowest", "ASC"))[int(topic.rng.integers(2))]
    return Question(
        "order",
        f"What is the name of the {entity.one} with the {word} {measure.phrase}?",
        f"SELECT name FROM {entity.one} ORDER BY {measure.column} {direction} LIMIT 1",
    )


def top_few(topic: Topic) -> Question:
    """Name the first few rows by a measure."""
    entity, measure = topic.entity, topic.measure()
    count = int(topic.rng.integers(3, 7))
    return Question(
        "order",
        f"Name the {count} {entity.many} with the highest {measure.phrase}, the highest first.",
        f"SELECT name FROM {entity.one} ORDER BY {measure.column} DESC LIMIT {count}",
    )


def aggregate(topic: Topic) -> Question:
    """Aggregate a measure over a category."""
    entity, category, measure = topic.entity, topic.entity.category, topic.measure()
    value = topic.value(entity, category.column)
    word, function = (("average", "avg"), ("total", "sum"), ("lowest", "min"), ("highest", "max"))[
        int(topic.rng.integers(4))
    ]
    return Question(
        "aggregate",
        f"What is the {word} {measure.phrase} of the {entity.many} with the {category.phrase} '{value}'?",
        f"SELECT {function}({measure.column}) FROM {entity.one} WHERE {category.column} = '{value}'",
    )


def count_by_category(topic: Topic) -> Question:
    """Count each category."""
    entity, category = topic.entity, topic.entity.category
    column = category.column
    return Question(
        "group",
        f"For each {category.phrase} of {entity.many}, give it and the number of {entity.many} that have it, "
        f"in alphabetical order of the {category.phrase}.",
        f"SELECT {column}, count(*) FROM {entity.one} GROUP BY {column} ORDER BY {column}",
    )


def above_average(topic: Topic) -> Question:
    """Count the rows above the average."""
    entity, measure = topic.entity, topic.measure()
    return Question(
        "subquery",
        f"How many {entity.many} have a {measure.phrase} above the average {measure.phrase} of all {entity.many}?",
        f"SELECT count(*) FROM {entity.one} "
        f"WHERE {measure.column} > (SELECT avg({measure.column}) FROM {entity.one})",
    )


def list_of_owner(topic: Topic) -> Question:
    """List what belongs to one owner."""
    entity, owner = topic.entity, topic.owner
    name = topic.value(owner, "name")
    return Question(
        "join",
        f"List the names of the {entity.many} of the {owner.one} {name}, in alphabetical order.",
        f"SELECT t.name FROM {topic.join} WHERE o.name = '{name}' ORDER BY t.name",
    )


def total_of_owner(topic: Topic) -> Question:
    """Aggregate over what belongs to owners of a category."""
    entity, owner, measure = topic.entity, topic.owner, topic.measure()
    value = topic.value(owner, owner.category.column)
    return Question(
        "join",
        f"What is the total {measure.phrase} of the {entity.many} of all {owner.many} "
        f"with the {owner.category.phrase} '{value}'?",
        f"SELECT sum(t.{measure.column}) FROM {topic.join} WHERE o.{owner.category.column} = '{value}'",
    )


def count_per_owner(topic: Topic) -> Question:
    """Count per owner, those without any included."""
    entity, owner = topic.entity, topic.owner
    return Question(
        "group",
        f"For each {owner.one}, also those without any, give its name and its number of {entity.many}, "
        f"in alphabetical order of the names.",
        f"SELECT o.name, count(t.id) FROM {owner.one} AS o LEFT JOIN {entity.one} AS t ON t.{owner.one}_id = o.id "
        f"GROUP BY o.id ORDER BY o.name",
    )


def busy_owners(topic: Topic) -> Question:
    """Name the owners that have many."""
    entity, owner = topic.entity, topic.owner
    bound = max(1, entity.rows // owner.rows)
    return Question(
        "group",
        f"Which {owner.many} have more than {bound} {entity.many}? Give their names in alphabetical order.",
        f"SELECT o.name FROM {topic.join} GROUP BY o.id HAVING count(*) > {bound} ORDER BY o.name",
    )


def idle_owners(topic: Topic) -> Question:
    """Name the owners that have none of a category."""
    entity, owner, category = topic.entity, topic.owner, topic.entity.category
    value = topic.value(entity, category.column)
    return Question(
        "subquery",
        f"Which {owner.many} have no {entity.many} with the {category.phrase} '{value}'? "
        f"Give their names in alphabetical order.",
        f"SELECT name FROM {owner.one} WHERE id NOT IN "
        f"(SELECT {owner.one}_id FROM {entity.one} WHERE {category.column} = '{value}') ORDER BY name",
    )


def best_of_owner(topic: Topic) -> Question:
    """Name the owner of the row with the highest measure."""
    entity, owner, measure = topic.entity, topic.owner, topic.measure()
    return Question(
        "join",
        f"To which {owner.one} belongs the {entity.one} with the highest {measure.phrase}? Give the name.",
        f"SELECT o.name FROM {topic.join} ORDER BY t.{measure.column} DESC LIMIT 1",
    )


def count_two_hops(topic: Topic) -> Question:
    """Count what belongs to the things of one owner."""
    first, second, third = topic.subject.entities
    name = topic.value(first, "name")
    return Question(
        "two joins",
        f"How many {third.many} do the {second.many} of the {first.one} {name} have in all?",
        f"SELECT count(*) FROM {third.one} AS e JOIN {second.one} AS t ON e.{second.one}_id = t.id "
        f"JOIN {first.one} AS o ON t.{first.one}_id = o.id WHERE o.name = '{name}'",
    )


Asker: TypeAlias = Callable[[Topic], Question]
ABOUT_A_TABLE: tuple[Asker, ...] = (
    count_all,
    count_category,
    list_above,
    list_by_measure,
    extreme,
    top_few,
    aggregate,
    count_by_category,
    above_average,
)
ABOUT_BELONGING: tuple[Asker, ...] = (
    list_of_owner,
    total_of_owner,
    count_per_owner,
    busy_owners,
    idle_owners,
    best_of_owner,
)


def ask(subject: Subject, rows: RowsOf, rng: np.random.Generator) -> Iterator[Question]:
    """Every kind of question about every table it fits, each question once."""
    seen: set[str] = set()
    for entity in subject.entities:
        topic = Topic(subject, entity, rows, rng)
        askers = ABOUT_A_TABLE if subject.owner(entity) is None else ABOUT_A_TABLE + ABOUT_BELONGING
        for question in (*(asker(topic) for asker in askers), count_two_hops(topic)):
            if question.text not in seen:
                seen.add(question.text)
                yield question
