"""A family: one API's valid request, what must be there for it, and how cases are made of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from moldau.wire.apis import API_SPECS, ApiKey
from tests.differential.mutations import WRONG_FRAMES, mutations, pairs, some
from tests.differential.shape import request_case
from tests.differential.steps import Plain, Scenario, Step, named

OLDER_VERSIONS_CASES = 14
LATEST_VERSION_CASES = 90


@dataclass(frozen=True)
class Family:
    """`~` in a text stands for what makes it belong to one scenario alone."""

    api: ApiKey
    request: Plain
    setup: Sequence[Step] = ()
    after: Sequence[Step] = ()
    each: bool = False
    """Every case has a setup of its own, because a valid request changes what the next would meet."""
    pools: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    more: Sequence[Plain] | Mapping[str, Plain] = ()
    """Whole requests beside the valid one, with or without names of their own; mutations are made of the valid one."""
    tag: str = ""
    on: str = "main"
    bind: Mapping[str, str] = field(default_factory=dict)
    cases_latest: int = LATEST_VERSION_CASES
    cases_older: int = OLDER_VERSIONS_CASES
    pairs: int = 15
    """Requests of the latest version with two fields changed."""
    wrong_frames: bool = True
    skip: Sequence[str] = ()
    """Mutations that Kafka never answers: its request dies of an exception on the way."""
    low: int = 0
    """The version from which the request makes sense."""
    versions: Sequence[int] = range(100)

    def scenarios(self) -> Iterator[Scenario]:
        spec = API_SPECS[self.api]
        served = range(max(spec.min_version, self.low), spec.advertised_max_version + 1)
        versions = [version for version in served if version in self.versions]
        for version in versions:
            cases = list(self._cases(version, latest=version == versions[-1]))
            stem = f"{spec.name}{self.tag and ' ' + self.tag} v{version}"
            if self.each:
                for number, case in enumerate(cases):
                    yield self._scenario(f"{stem} #{number}", f"{self._code}.{version}.{number}", [case])
            else:
                yield self._scenario(stem, f"{self._code}.{version}", cases)

    @property
    def _code(self) -> str:
        return f"{int(self.api)}{self.tag.replace(' ', '-')}"

    def _scenario(self, name: str, suffix: str, cases: Sequence[Step]) -> Scenario:
        steps = [*self.setup, *(step for case in cases for step in (case, *self.after))]
        own = [replace(step, request=named(step.request, suffix)) for step in steps]
        return Scenario(name, self.api, tuple(own))

    def _cases(self, version: int, *, latest: bool) -> Iterator[Step]:
        plain = Step(self.api, version, self.request, "valid", on=self.on, bind=self.bind)
        yield plain
        more = self.more if isinstance(self.more, Mapping) else {f"request {n}": r for n, r in enumerate(self.more, 1)}
        yield from (replace(plain, request=request, label=label, bind={}) for label, request in more.items())
        case = request_case(self.api, version)
        made = [one for one in mutations(case, self.request, self.pools) if not self._is_skipped(one.label)]
        count = self.cases_latest if latest else self.cases_older
        seed = f"{self.api} {self.tag} {version}"
        pair_count = self.pairs if latest and count else 0
        two = pairs(case, made, self.pools, pair_count, seed)
        for mutation in [*some(made, count, seed), *(pair for pair in two if not self._is_skipped(pair.label))]:
            yield replace(plain, request=mutation.request, label=mutation.label, bind={})
        if self.wrong_frames:
            for label, change in WRONG_FRAMES.items():
                yield replace(plain, label=label, change=change, on="wrong", bind={})

    def _is_skipped(self, label: str) -> bool:
        return any(part in self.skip for part in label.split(" & "))
