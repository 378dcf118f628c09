"""Generate `src/moldau/wire/messages/*.py` and `src/moldau/wire/api_table.py` from `src/moldau/wire/schema/*.table`.

`python tools/generate_wire.py` writes the files; with `--check` it only says which differ (status 1 if any).
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from wiregen.modules import api_table_text, module_text
from wiregen.tables import read_tables

WIRE = Path(__file__).resolve().parent.parent / "src" / "moldau" / "wire"
PACKAGE_NOTE = (
    '"""Message classes and codecs, one module per API or record. Generated; import only what is needed."""\n'
)


def generated_files() -> dict[Path, str]:
    """Every generated file with its text."""
    tables = read_tables(WIRE / "schema")
    files = {WIRE / "messages" / "__init__.py": PACKAGE_NOTE}
    for stem, messages in tables.items():
        files[WIRE / "messages" / f"{stem}.py"] = module_text(stem, messages)
    everything = [message for messages in tables.values() for message in messages]
    files[WIRE / "api_table.py"] = api_table_text(everything)
    return files


def drift() -> list[str]:
    """What is on disk and differs from what the tables say."""
    expected = generated_files()
    wrong = [path.name for path, text in expected.items() if not path.exists() or path.read_text() != text]
    stray = [path.name for path in (WIRE / "messages").glob("*.py") if path not in expected]
    return sorted(wrong + stray)


def main(arguments: list[str]) -> int:
    if "--check" in arguments:
        different = drift()
        print("\n".join(different) if different else "generated code is up to date")
        return 1 if different else 0
    expected = generated_files()
    for stray in (WIRE / "messages").glob("*.py"):
        if stray not in expected:
            stray.unlink()
    for path, text in expected.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    print(f"{len(expected)} files written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
