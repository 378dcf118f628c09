"""No damage to any file of a data directory loses an acknowledged record in silence, and the page of it is true."""

from __future__ import annotations

from pathlib import Path

from tests.fault import damage_table as table

BY_CHANCE = ("`metadata.db`", "one bit flipped")
"""What lies in the middle of the database differs from run to run; that nothing is silent does not."""


def test_every_file_damaged_in_every_way_ends_as_the_page_says(tmp_path: Path) -> None:
    found = table.make(tmp_path)
    silent = [(kind, stop, how) for (kind, stop), row in found.items() for how in row if "SILENT" in row[how]]
    assert silent == []
    assert len(found) > 40
    page = table.PAGE.read_text()
    recorded = {line for line in page.splitlines() if line.startswith("| ")}
    for (kind, stop), row in found.items():
        if kind != BY_CHANCE[0]:
            (line,) = [line for line in table.render({(kind, stop): row}).splitlines() if f"| {stop} |" in line]
            assert line in recorded, "run: PYTHONPATH=src python -m tests.fault.damage_table"
