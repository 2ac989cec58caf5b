# SPDX-License-Identifier: MIT OR Apache-2.0
"""Models of what preemptions and migrations cost, and what to do about it, computed in process."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from corehop import _corehop, _errors, _files, _records
from corehop._advice import Advice, Prediction
from corehop._options import Time, word
from corehop._platform import Platform, platform
from corehop._result import Result, load
from corehop._rows import ArrowTable, rows

Samples = Result | str | os.PathLike[str]
"""A result, or the path of one."""


class CostModel:
    """A model of the cost of an event, in scikit-learn's manner.

    What is asked of it (event, load, statistic, …) are its parameters; `fit` learns from samples, and `predict` gives a
    cost for each working-set size. The whole that was learned, every event and load, is in `model_`.

    Args:
        event, load: Whose cost `predict` gives.
        statistic: `mean`, `median`, `p90`, `p99` or `max`.
        length: The preemption length, as a text (`"4ms"`); the longest measured length if left out.
        method: `fitted`, `survivors` or `worst_case`; the one that was least far off if left out.
        estimator: How a delay follows from the intervals of a sample.
        only: Which of several series: `{"page": "thp"}`.

    Example:
        >>> model = CostModel(statistic="median").fit([[4096], [65536], [65536]], [1.0, 20.0, 22.0])
        >>> model.predict([65536])
        [21.0]
        >>> model.get_params()["statistic"]
        'median'
    """

    def __init__(
        self,
        *,
        event: str = "preemption",
        load: str = "idle",
        statistic: str = "mean",
        length: str | None = None,
        method: str | None = None,
        estimator: str = "difference",
        only: Mapping[str, object] | None = None,
    ) -> None:
        self.event = event
        self.load = load
        self.statistic = statistic
        self.length = length
        self.method = method
        self.estimator = estimator
        self.only = only

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Its parameters by name."""
        return {name: getattr(self, name) for name in _PARAMETERS}

    def set_params(self, **params: Any) -> Self:
        """Sets parameters.

        Raises:
            Usage: there is no such parameter.
        """
        for name, value in params.items():
            if name not in _PARAMETERS:
                raise _errors.Usage(f"a model has no parameter {name}: it has {', '.join(_PARAMETERS)}")
            setattr(self, name, value)
        return self

    def fit(self, X: Any, y: Sequence[float] | None = None) -> Self:
        """Learns from samples.

        Args:
            X: A result, the path of one, or a list of them: all their events and loads are learned, and `y` is left out.
                Or what is known of each delay in `y`: a table, mappings, or rows of numbers, with the columns
                `wss_bytes`, and if known `length_us`, `event` and `load`, in this order.
            y: The delays in microseconds.

        Raises:
            Usage: there is nothing to fit, or an event is unknown.
        """
        if y is None:
            given: list[Any] = [X] if isinstance(X, Result | str | os.PathLike) else list(X)
            files = [(it if isinstance(it, Result) else load(it))._file for it in given]
            self._model = _corehop.Model.fit(files, self.estimator)
            return self
        points = [self._point(row) for row in _features(X)]
        delays = [float(delay) for delay in y]
        if len(points) != len(delays):
            raise _errors.Usage(f"X has {len(points)} rows and y has {len(delays)}: each delay needs its row")
        self._model = _corehop.Model.fit_known([(*point, delay) for point, delay in zip(points, delays)])
        return self

    def _point(self, row: Mapping[str, Any]) -> tuple[str, str, int, float]:
        event, load = row.get("event", self.event), row.get("load", self.load)
        return str(event), str(load), _bytes(row), float(row.get("length_us", 0.0))

    def predict(self, X: Any) -> list[float]:
        """The cost in microseconds at each size.

        Args:
            X: Sizes in bytes, or as texts (`"64KiB"`); rows of them, with a length in microseconds as second number
                if there is one; or a table with the columns of `fit`.

        Raises:
            Usage: a size is beyond what was measured, or the event or the load was not.
        """
        return [answer.estimate_us for answer in self.answers(X)]

    def predict_interval(self, X: Any) -> list[tuple[float | None, float | None]]:
        """The interval at 95 % of each cost; None for an end that the samples do not carry.

        A cost of the methods `survivors` and `worst_case` is computed from the platform: both ends are None, unless the
        method was tried on ten measured points or more. Then its errors there give an interval at 90 %.
        """
        return [(answer.low_us, answer.high_us) for answer in self.answers(X)]

    def answers(self, X: Any) -> list[Prediction]:
        """The answer of `corehop advise predict` for each size."""
        return [_records.made(Prediction, json.loads(self._answer(row))) for row in _features(X)]

    def _answer(self, row: Mapping[str, Any]) -> str:
        length_us = row.get("length_us")
        length = self.length if length_us is None else f"{round(1000 * float(length_us))}ns"
        wss = row["wss_bytes"]
        return self._fitted.predict(
            wss if isinstance(wss, str) else f"{int(wss)}B",
            str(row.get("event", self.event)),
            str(row.get("load", self.load)),
            length,
            self.statistic,
            self.method,
            _only(self.only),
        )

    def score(self, X: Any, y: Sequence[float]) -> float:
        """The coefficient of determination R² of the predictions of `y`."""
        delays = [float(delay) for delay in y]
        mean = sum(delays) / len(delays)
        rest = sum((delay - told) ** 2 for delay, told in zip(delays, self.predict(X)))
        whole = sum((delay - mean) ** 2 for delay in delays)
        return 1 - rest / whole if whole else float(rest == 0)

    @property
    def model_(self) -> dict[str, Any]:
        """All that was learned, as `corehop advise fit --json` prints it."""
        learned: dict[str, Any] = json.loads(self._fitted.json())
        return learned

    @property
    def _fitted(self) -> _corehop.Model:
        model: _corehop.Model | None = getattr(self, "_model", None)
        if model is None:
            raise _errors.Usage("this model is not fitted yet: call fit first")
        return model

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> Path:
        """Writes the model, as `corehop advise fit -o` does; over an existing file only with `force`."""
        return _files.write(path, self._fitted.json(), force=force)

    @classmethod
    def load_model(cls, path: str | os.PathLike[str], **params: Any) -> Self:
        """A model that `save` or `corehop advise fit -o` wrote.

        Raises:
            Damaged: the file is another one, or damaged.
        """
        model = cls(**params)
        model._model = _corehop.Model.from_json(Path(path).read_text(encoding="utf-8"))
        return model

    def __sklearn_is_fitted__(self) -> bool:
        return getattr(self, "_model", None) is not None

    def __repr__(self) -> str:
        usual = CostModel().get_params()
        given = [f"{name}={value!r}" for name, value in self.get_params().items() if value != usual[name]]
        return f"CostModel({', '.join(given)})"


_PARAMETERS = ("event", "load", "statistic", "length", "method", "estimator", "only")
_COLUMNS = ("wss_bytes", "length_us", "event", "load")


def fit(samples: Samples | Iterable[Samples], *, estimator: str = "difference") -> CostModel:
    """A model of all delays in some samples: what `corehop advise fit` computes.

    Raises:
        Usage: there is no delay in them.

    Example:
        >>> model = corehop.fit(corehop.load("quick.parquet"))
        >>> len(model.predict(["4KiB"]))
        1
    """
    return CostModel(estimator=estimator).fit(samples)


def predict(
    model: CostModel | Samples,
    wss: Any,
    *,
    event: str = "preemption",
    load: str = "idle",
    statistic: str = "mean",
    length: Time | None = None,
    method: str | None = None,
    only: Mapping[str, object] | None = None,
) -> list[Prediction]:
    """The cost of an event at some sizes, with interval: the answers of `corehop advise predict`.

    Args:
        model: A model, the path of a model (`*.json`), or samples to which corehop fits a model.
        wss: A size, or several, in bytes or as texts (`"64KiB"`).
        event, load, statistic, length, method, only: As for `CostModel`.

    Raises:
        Usage: a size is beyond what was measured, or the event or the load was not.
    """
    asked = CostModel(
        event=event, load=load, statistic=statistic, length=_time(length), method=method, only=only
    )
    asked._model = _model(model)
    return asked.answers([wss] if isinstance(wss, str | int) else wss)


def advise(
    what: CostModel | Samples | None = None,
    *,
    on: Platform | str | os.PathLike[str] | None = None,
    wss: str | int | Iterable[str | int] = (),
    length: Time | None = None,
    only: Mapping[str, object] | None = None,
    samples: int = 16,
    seed: int = 1,
    loaded: bool = True,
) -> Advice:
    """Advice for a scheduler on a machine: the answer of `corehop advise --json`.

    Args:
        what: Samples of the machine, or a model of these samples.
        on: In their place a platform, of which the synthetic method is simulated (a minute or more).
        wss: The sizes, in bytes or as texts; those measured if left out.
        length: The expected wait to advise on, as a text, a timedelta or seconds; the usual ones from 1 us to 10 ms if left out.
        only: Which of several series.
        samples, seed, loaded: Of a simulation: the samples of each cell, the seed, and whether polluters run too.

    Returns:
        The advice: `rules`, `isolation`, `constants`, `silent` and `lacking`; from a simulation also `partitioning`.
        Each of the `moves` of a rule has the expected wait from which it `pays_from`, with an interval; `waits` has the
        verdicts.

    Raises:
        Usage: neither or both of `what` and `on`, or several series fit.
        NotPossible: the platform cannot be simulated.
    """
    sizes = [wss] if isinstance(wss, str | int) else list(wss)
    texts = [size if isinstance(size, str) else f"{size}B" for size in sizes]
    if what is not None and on is None:
        advice = _model(what).advise(texts, _time(length), _only(only))
    elif what is not None or on is None:
        raise _errors.Usage("say what to advise on: samples or a model, or a platform with on=")
    else:
        machine = on if isinstance(on, Platform) else platform(on)
        advice = _corehop.advise_on(machine._platform, texts, _time(length), samples, seed, loaded)
    return Advice(json.loads(advice))


def costs(
    source: CostModel | Samples,
    load: str | None,
    statistic: str | None,
    length: str | None,
    only: Mapping[str, object] | None,
) -> _corehop.Costs:
    """Costs for the core: of a model, of samples, or of a table in a CSV file."""
    chosen = (load, statistic, length, _only(only))
    if isinstance(source, str | os.PathLike) and Path(source).suffix == ".csv":
        return _corehop.Costs(Path(source).read_text(encoding="utf-8"), None, *chosen)
    return _corehop.Costs(None, _model(source), *chosen)


def _model(what: CostModel | Samples) -> _corehop.Model:
    if isinstance(what, CostModel):
        return what._fitted
    if isinstance(what, str | os.PathLike) and Path(what).suffix == ".json":
        return CostModel.load_model(what)._fitted
    return CostModel().fit(what)._fitted


def _time(length: Time | None) -> str | None:
    return None if length is None else word(length, "Time")


def _only(only: Mapping[str, object] | None) -> list[tuple[str, str]]:
    return [(name, str(value)) for name, value in (only or {}).items()]


def _bytes(row: Mapping[str, Any]) -> int:
    return int(row["wss_bytes"])


def _features(X: Any) -> list[Mapping[str, Any]]:
    """Rows by column, whatever they are given as."""
    if isinstance(X, ArrowTable):
        return [_complete(row) for row in rows(X)]
    return [_row(row) for row in X]


def _row(row: Any) -> Mapping[str, Any]:
    if isinstance(row, Mapping):
        return _complete(row)
    if isinstance(row, str) or not isinstance(row, Iterable):
        return {"wss_bytes": row}
    return dict(zip(_COLUMNS, row))


def _complete(row: Mapping[str, Any]) -> Mapping[str, Any]:
    if "wss_bytes" not in row:
        raise _errors.Usage(f"wss_bytes is missing: a row has {', '.join(row)}")
    return row
