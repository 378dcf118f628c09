"""Python code that a pipeline names: looked at without running it for checks, loaded for a run."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from moldau.pipelines.places import Mistakes, Place, nearest
from moldau.pipelines.spec import PythonReference


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    required: bool


@dataclass(frozen=True, slots=True)
class Signature:
    place: Place
    parameters: tuple[Parameter, ...]
    takes_any: bool
    """It has **kwargs."""


class CodeFailed(Exception):
    """A named Python file raised an error while it was loaded; the cause carries it."""

    def __init__(self, place: Place, what: str) -> None:
        super().__init__(what)
        self.place = place


def signature(reference: PythonReference, *, is_class: bool, mistakes: Mistakes) -> Signature | None:
    """What the function, or the class's constructor, takes; None, with the mistake told, when it is not there."""
    if reference.given is not None:
        return _of_object(reference, is_class)
    assert reference.file is not None
    tree = _parse(reference, mistakes)
    if tree is None:
        return None
    wanted = ast.ClassDef if is_class else ast.FunctionDef
    defined = {node.name: node for node in tree.body if isinstance(node, wanted)}
    imported = _imported_or_assigned(tree)
    found = defined.get(reference.name)
    if found is None:
        if reference.name not in imported:  # those can only be known by running the file
            what = "class" if is_class else "function"
            mistakes.add(
                reference.place,
                f"{reference.file.name} has no {what} '{reference.name}'",
                nearest(reference.name, defined) or _what_there_is(reference.file, defined),
            )
        return None
    place = Place(str(reference.file), found.lineno, found.col_offset + 1)
    if isinstance(found, ast.ClassDef):
        init = next((n for n in found.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
        return Signature(place, (), True) if init is None else _of_arguments(init.args, place, skip_self=True)
    return _of_arguments(found.args, place, skip_self=False)


def load_object(reference: PythonReference) -> Callable[..., Any]:
    """The function or class itself. Errors of the user's file come as `CodeFailed`."""
    if reference.given is not None:
        return reference.given
    assert reference.file is not None
    module = load_module(reference.file, reference.place)
    found = getattr(module, reference.name, None)
    if not callable(found):
        raise CodeFailed(reference.place, f"{reference.file.name} has no function or class '{reference.name}'")
    return found  # type: ignore[no-any-return]


def load_module(path: Path, place: Place) -> ModuleType:
    """Load a file as a module of a name of its own, pickled by value so that executors need no copy of the file."""
    name = f"moldau_pipeline_{path.stem}_{hashlib.sha1(str(path).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.append(folder)  # its neighbours may be imported, but never hide installed modules
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise CodeFailed(place_in(error, path) or place, f"{type(error).__name__}: {error}") from error
    pickle_by_value(module)
    return module


def pickle_by_value(module: ModuleType) -> None:
    try:
        from pyspark.cloudpickle import register_pickle_by_value
    except ImportError:
        return
    register_pickle_by_value(module)


def place_in(error: BaseException, path: Path) -> Place | None:
    """The last line of this file that an error passed through."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return Place(str(path), error.lineno or 1, error.offset or 1)
    found = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            found = Place(str(path), trace.tb_lineno)
        trace = trace.tb_next
    return found


# -- inside ----------------------------------------------------------------------------------------------------------


def _parse(reference: PythonReference, mistakes: Mistakes) -> ast.Module | None:
    assert reference.file is not None
    try:
        return ast.parse(reference.file.read_text(), str(reference.file))
    except SyntaxError as error:
        place = Place(str(reference.file), error.lineno or 1, error.offset or 1)
        mistakes.add(place, f"this is not Python: {error.msg}")
    except OSError as error:
        mistakes.add(reference.place, f"cannot read {reference.file}: {error.strerror}")
    except ValueError as error:
        mistakes.add(reference.place, f"cannot read {reference.file}: {error}")
    return None


def _what_there_is(file: Path, defined: Iterable[str]) -> str:
    names = ", ".join(defined)
    return f"{file.name} has {names}" if names else ""


def _imported_or_assigned(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def _of_arguments(arguments: ast.arguments, place: Place, *, skip_self: bool) -> Signature:
    positional = [*arguments.posonlyargs, *arguments.args]
    without_default = len(positional) - len(arguments.defaults)
    parameters = [Parameter(arg.arg, i < without_default) for i, arg in enumerate(positional)]
    parameters += [
        Parameter(arg.arg, default is None)
        for arg, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    return Signature(place, tuple(parameters[1:] if skip_self else parameters), arguments.kwarg is not None)


def _of_object(reference: PythonReference, is_class: bool) -> Signature | None:
    assert reference.given is not None
    target = reference.given.__init__ if is_class else reference.given
    if is_class and target is object.__init__:
        return Signature(reference.place, (), True)
    try:
        found = inspect.signature(target)
    except (TypeError, ValueError):
        return None
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = [Parameter(p.name, p.default is p.empty) for p in found.parameters.values() if p.kind in named]
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in found.parameters.values())
    return Signature(reference.place, tuple(parameters[1:] if is_class else parameters), takes_any)
