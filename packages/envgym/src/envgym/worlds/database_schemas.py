"""The subjects of the embedded databases: three tables each, and each row belongs to one of the table before.

Subjects of the evaluation split share no table with those of the training split.
"""

from dataclasses import dataclass

from envgym.env import Split

OWNERS, THINGS, EVENTS = 14, 40, 140  # rows of the first, second and third table


@dataclass(frozen=True, slots=True)
class Measure:
    """A column of whole numbers, no two alike, so that the highest is in one row."""

    column: str
    phrase: str
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Category:
    """A column that holds one of a few words."""

    column: str
    phrase: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Entity:
    """A table with the columns ``id``, ``name``, one measure or two, and a category."""

    one: str
    """What a row is called; also the name of the table."""
    many: str
    rows: int
    measures: tuple[Measure, ...]
    category: Category


@dataclass(frozen=True, slots=True)
class Subject:
    """Three entities: owners, their things, and what befalls the things."""

    name: str
    entities: tuple[Entity, Entity, Entity]

    def owner(self, entity: Entity) -> Entity | None:
        """The entity that this one's rows belong to, through the column ``<owner>_id``."""
        place = self.entities.index(entity)
        return self.entities[place - 1] if place else None


SUBJECTS: dict[Split, tuple[Subject, ...]] = {
    "train": (
        Subject(
            "bakeries",
            (
                Entity(
                    "bakery", "bakeries", OWNERS,
                    (Measure("floor_area", "floor area", 40, 400),),
                    Category("district", "district", ("harbour", "market", "old town", "station")),
                ),
                Entity(
                    "baker", "bakers", THINGS,
                    (Measure("wage", "wage", 1800, 4200), Measure("height", "height", 150, 205)),
                    Category("shift", "shift", ("morning", "evening", "night")),
                ),
                Entity(
                    "cake", "cakes", EVENTS,
                    (Measure("price", "price", 5, 600), Measure("weight", "weight", 200, 3000)),
                    Category("flavour", "flavour", ("almond", "cherry", "honey", "lemon", "plum")),
                ),
            ),
        ),
        Subject(
            "ferries",
            (
                Entity(
                    "port", "ports", OWNERS,
                    (Measure("depth", "depth", 6, 60), Measure("berths", "number of berths", 1, 40)),
                    Category("coast", "coast", ("north", "east", "south", "west")),
                ),
                Entity(
                    "ferry", "ferries", THINGS,
                    (Measure("capacity", "capacity", 60, 1500), Measure("built", "year of building", 1950, 2024)),
                    Category("engine", "kind of engine", ("diesel", "electric", "steam")),
                ),
                Entity(
                    "voyage", "voyages", EVENTS,
                    (Measure("passengers", "number of passengers", 5, 1200),),
                    Category("weather", "weather", ("calm", "fog", "rain", "storm")),
                ),
            ),
        ),
        Subject(
            "orchards",
            (
                Entity(
                    "valley", "valleys", OWNERS,
                    (Measure("altitude", "altitude", 80, 1400), Measure("rainfall", "yearly rainfall", 300, 1900)),
                    Category("soil", "soil", ("chalk", "clay", "sand")),
                ),
                Entity(
                    "orchard", "orchards", THINGS,
                    (Measure("trees", "number of trees", 30, 2500),),
                    Category("fruit", "fruit", ("apple", "apricot", "cherry", "pear", "plum")),
                ),
                Entity(
                    "harvest", "harvests", EVENTS,
                    (Measure("yield_kg", "yield", 100, 9000), Measure("workers", "number of workers", 1, 190)),
                    Category("quality", "quality", ("fine", "good", "poor")),
                ),
            ),
        ),
        Subject(
            "observatories",
            (
                Entity(
                    "observatory", "observatories", OWNERS,
                    (Measure("founded", "year of foundation", 1780, 2015),),
                    Category("climate", "climate", ("arid", "mild", "polar")),
                ),
                Entity(
                    "telescope", "telescopes", THINGS,
                    (Measure("aperture", "aperture", 20, 900), Measure("cost", "cost", 1000, 90000)),
                    Category("kind", "kind", ("radio", "reflector", "refractor")),
                ),
                Entity(
                    "observation", "observations", EVENTS,
                    (Measure("minutes", "length", 5, 700), Measure("images", "number of images", 1, 900)),
                    Category("target", "kind of target", ("comet", "galaxy", "planet", "star")),
                ),
            ),
        ),
        Subject(
            "theatres",
            (
                Entity(
                    "theatre", "theatres", OWNERS,
                    (Measure("seats", "number of seats", 80, 2200),),
                    Category("city_part", "part of the city", ("centre", "north bank", "south bank")),
                ),
                Entity(
                    "play", "plays", THINGS,
                    (Measure("lines", "number of lines", 300, 4000), Measure("budget", "budget", 900, 80000)),
                    Category("genre", "genre", ("comedy", "history", "musical", "tragedy")),
                ),
                Entity(
                    "performance", "performances", EVENTS,
                    (Measure("audience", "size of the audience", 10, 2000),),
                    Category("weekday", "day of the week", ("Friday", "Monday", "Saturday", "Wednesday")),
                ),
            ),
        ),
        Subject(
            "garages",
            (
                Entity(
                    "garage", "garages", OWNERS,
                    (Measure("lifts", "number of lifts", 1, 40), Measure("rent", "monthly rent", 500, 9000)),
                    Category("owner_type", "type of ownership", ("chain", "family", "partnership")),
                ),
                Entity(
                    "mechanic", "mechanics", THINGS,
                    (Measure("salary", "salary", 1900, 5200), Measure("badge", "badge number", 100, 999)),
                    Category("speciality", "speciality", ("body work", "brakes", "electrics", "engines")),
                ),
                Entity(
                    "repair", "repairs", EVENTS,
                    (Measure("bill", "bill", 20, 4800), Measure("hours", "hours of work", 1, 200)),
                    Category("vehicle", "kind of vehicle", ("bus", "car", "lorry", "motorcycle", "van")),
                ),
            ),
        ),
    ),
    "eval": (
        Subject(
            "museums",
            (
                Entity(
                    "museum", "museums", OWNERS,
                    (Measure("opened", "year of opening", 1800, 2022),),
                    Category("theme", "theme", ("art", "nature", "technology")),
                ),
                Entity(
                    "gallery", "galleries", THINGS,
                    (Measure("size", "size", 20, 900), Measure("guards", "number of guards", 1, 60)),
                    Category("floor", "floor", ("basement", "ground floor", "upper floor")),
                ),
                Entity(
                    "painting", "paintings", EVENTS,
                    (Measure("value", "insured value", 500, 95000), Measure("width", "width", 10, 480)),
                    Category("style", "style", ("baroque", "cubist", "gothic", "impressionist")),
                ),
            ),
        ),
        Subject(
            "railways",
            (
                Entity(
                    "line", "lines", OWNERS,
                    (Measure("length", "length", 12, 800), Measure("stops", "number of stops", 2, 70)),
                    Category("gauge", "gauge", ("broad", "narrow", "standard")),
                ),
                Entity(
                    "train", "trains", THINGS,
                    (Measure("speed", "top speed", 60, 320), Measure("tonnage", "tonnage", 40, 900)),
                    Category("colour", "colour", ("blue", "green", "red", "white")),
                ),
                Entity(
                    "trip", "trips", EVENTS,
                    (Measure("delay", "delay", 1, 3600), Measure("tickets", "number of tickets", 3, 990)),
                    Category("season", "season", ("autumn", "spring", "summer", "winter")),
                ),
            ),
        ),
        Subject(
            "kennels",
            (
                Entity(
                    "keeper", "keepers", OWNERS,
                    (Measure("age", "age", 18, 90),),
                    Category("village", "village", ("Arden", "Brook", "Combe")),
                ),
                Entity(
                    "dog", "dogs", THINGS,
                    (Measure("mass", "mass", 3, 95), Measure("licence", "licence number", 1000, 9999)),
                    Category("coat", "coat", ("curly", "long", "short", "wiry")),
                ),
                Entity(
                    "walk", "walks", EVENTS,
                    (Measure("distance", "distance", 200, 9900), Measure("steps", "number of steps", 300, 15000)),
                    Category("ground", "ground", ("beach", "forest", "meadow", "street")),
                ),
            ),
        ),
    ),
}  # fmt: skip
