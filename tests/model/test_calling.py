"""What a tool's function may be called with is what its signature says, however it is found out."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog import Store
from turnlog.errors import InvalidInput
from turnlog.model.calling import arguments_for, is_async, refuse_generator

if TYPE_CHECKING:
    from collections.abc import Callable

    from turnlog import ToolCall

FUNCTIONS: list[Callable[..., Any]] = [
    lambda: None,
    lambda a: a,
    lambda a, b=1: (a, b),
    lambda a, /: a,
    lambda a, /, b: (a, b),
    lambda *, a: a,
    lambda *, a, b=1: (a, b),
    lambda *args: args,
    lambda **kwargs: kwargs,
    lambda a, /, **kwargs: (a, kwargs),
    lambda a, *args, b, **kwargs: (a, args, b, kwargs),
]


def call() -> ToolCall:
    return Store.ephemeral().create().turn("try it").tool_call("tool", {})


ONE = call()


@given(
    fn=st.sampled_from(FUNCTIONS),
    args=st.lists(st.just(1), max_size=2).map(tuple),
    kwargs=st.dictionaries(st.sampled_from(["a", "b", "c"]), st.just(1)),
)
def test_arguments_fit_where_the_signature_binds_them(
    fn: Callable[..., Any], args: tuple[int, ...], kwargs: dict[str, int]
) -> None:
    try:
        inspect.signature(fn).bind(*args, **kwargs)
        fits = True
    except TypeError:
        fits = False
    for _ in range(2):  # also when the function is known already
        given_args, given_kwargs, error = arguments_for(fn, args, kwargs, ONE)
        assert (given_args, given_kwargs, error is None) == (args, kwargs, fits)


def test_a_parameter_of_that_name_is_given_the_idempotency_key_as_a_keyword_only() -> None:
    keyed: list[Callable[..., Any]] = [lambda idempotency_key: 1, lambda *, idempotency_key: 1]
    for fn in keyed:
        assert arguments_for(fn, (), {}, ONE)[1:] == ({"idempotency_key": ONE.idempotency_key}, None)
    assert isinstance(arguments_for(lambda idempotency_key, /: 1, (), {}, ONE)[2], TypeError)


def test_functions_that_run_later_are_told_apart() -> None:
    async def coroutine() -> None: ...

    def generator() -> Any:
        yield

    async def agenerator() -> Any:
        yield

    class Called:
        async def __call__(self) -> None: ...

    marked = lambda: None  # noqa: E731
    marked.anything = 1  # type: ignore[attr-defined]
    assert [is_async(fn) for fn in (coroutine, Called(), generator, marked, len)] == [True, True, False, False, False]
    for fn in (generator, agenerator):
        with pytest.raises(InvalidInput):
            refuse_generator(fn)
    for fine in (coroutine, Called(), marked, len):
        refuse_generator(fine)
