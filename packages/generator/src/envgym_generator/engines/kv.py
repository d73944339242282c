"""Keys and values of a batch while it is sampled, and of a rollout between its turns."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers.cache_utils import Cache, DynamicLayer

LayerStates = tuple[tuple[torch.Tensor, torch.Tensor], ...]
"""Per layer the keys and the values of one sequence, [H, T, D] each, without padding."""


class RoomyLayer(DynamicLayer):
    """A layer that writes into room set aside, where ``DynamicLayer`` copies everything at each new token."""

    def __init__(self, capacity: int) -> None:
        """``capacity`` is the number of positions, padding included, that will ever be written."""
        super().__init__()
        self._capacity = capacity
        self._room: list[torch.Tensor] = []
        """Keys and values, [B, H, capacity, D] each, once their shapes are known."""
        self._used = 0

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Set the room aside, zeroed: what padding leaves unwritten is masked, and must not be NaN."""
        super().lazy_initialization(key_states, value_states)
        self._room = [
            states.new_zeros((*states.shape[:2], self._capacity, states.shape[-1]))
            for states in (key_states, value_states)
        ]

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append states, [B, H, T, D] each, and return all there are."""
        if not self._room:
            self.lazy_initialization(key_states, value_states)
        end = self._used + key_states.shape[-2]
        for room, states in zip(self._room, (key_states, value_states), strict=True):
            room[:, :, self._used : end] = states
        return self._use(end)

    def _use(self, end: int) -> tuple[torch.Tensor, torch.Tensor]:
        self._used = end
        keys, values = (room[:, :, :end] for room in self._room)
        self.keys, self.values = keys, values
        return keys, values

    def get_seq_length(self) -> int:
        """Positions written so far, padding included."""
        return self._used

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keep these rows of the batch, in this order; a row may come twice."""
        for number, room in enumerate(self._room):
            selected = room.new_empty((len(indices), *room.shape[1:]))
            selected[:, :, : self._used] = room[indices, :, : self._used]
            self._room[number] = selected
        self._use(self._used)

    def fill(self, rows: Sequence[tuple[torch.Tensor, torch.Tensor] | None], width: int) -> None:
        """Begin with the states of earlier turns, padded on the left to ``width``; None for a row without."""
        keys, values = next(states for states in rows if states is not None)
        self.lazy_initialization(
            keys.new_empty((len(rows), keys.shape[0], 0, keys.shape[-1])),
            values.new_empty((len(rows), values.shape[0], 0, values.shape[-1])),
        )
        for row, states in enumerate(rows):
            if states is not None:
                for room, kept in zip(self._room, states, strict=True):
                    room[row, :, width - kept.shape[1] : width] = kept
        self._use(width)

    def states(self, row: int, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """A copy of the keys and values of a row at these positions, [H, T, D] each."""
        keys, values = (room[row].index_select(1, positions) for room in self._room)
        return keys, values


class RoomyCache(Cache):
    """A cache of ``RoomyLayer``."""

    def __init__(self, num_layers: int, capacity: int) -> None:
        """``capacity`` is the number of positions that will ever be written."""
        self._layers = [RoomyLayer(capacity) for _ in range(num_layers)]
        super().__init__(layers=list(self._layers))

    def fill(self, rows: Sequence[LayerStates | None], width: int) -> None:
        """Begin with the states of earlier turns, padded on the left to ``width``."""
        for number, layer in enumerate(self._layers):
            layer.fill([None if states is None else states[number] for states in rows], width)

    def states(self, row: int, positions: torch.Tensor) -> LayerStates:
        """A copy of the states of a row at these positions."""
        return tuple(layer.states(row, positions) for layer in self._layers)


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """What is kept of a sequence."""

    ids: tuple[int, ...]
    """[T] the ids that the states belong to."""
    states: LayerStates

    @property
    def num_bytes(self) -> int:
        """Memory that the states take."""
        return sum(states.numel() * states.element_size() for layer in self.states for states in layer)

    def cut(self, length: int) -> LayerStates:
        """The states of the first ``length`` ids."""
        return tuple((keys[:, :length], values[:, :length]) for keys, values in self.states)


class KeptStates:
    """States of sequences between turns, by key. Beyond ``max_bytes`` the longest unused go."""

    def __init__(self, max_bytes: int) -> None:
        """Keep at most ``max_bytes``; 0 keeps nothing."""
        self._max_bytes = max_bytes
        self._kept: OrderedDict[object, Kept] = OrderedDict()
        self.num_bytes = 0
        """Memory taken now."""

    def keep(self, key: object, kept: Kept) -> None:
        """Keep the states of a sequence in place of its earlier ones."""
        self.drop(key)
        self._kept[key] = kept
        self.num_bytes += kept.num_bytes
        while self.num_bytes > self._max_bytes:
            self.drop(next(iter(self._kept)))

    def find(self, key: object, ids: tuple[int, ...]) -> Kept | None:
        """What is kept under ``key``, if ``ids`` go on from it."""
        kept = self._kept.get(key)
        if kept is None or ids[: len(kept.ids)] != kept.ids:
            return None
        self._kept.move_to_end(key)
        return kept

    def drop(self, key: object) -> None:
        """Forget a sequence, where it is known."""
        kept = self._kept.pop(key, None)
        self.num_bytes -= kept.num_bytes if kept else 0

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()
        self.num_bytes = 0
