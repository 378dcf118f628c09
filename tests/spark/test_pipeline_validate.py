"""`moldau pipeline validate` with Spark's own parser: every mistake at once, each at its line and column."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from moldau.cli.main import root
from moldau.spark.java import find_java

BAD = """\
pipeline: bad
triger: 1s
sources:
  views:
    topic: page_views
    schema: user STRING, page STRNG, at TIMESTAMP
    options: {maxOffsetPerTrigger: 5}
  drops: {files: ./in, format: csv, read: stream, schema: "a INT b INT"}
steps:
  - name: a
    sql: |
      SELECT user,
        count(*) FORM views
      GROUP BY user
  - name: b
    sql: SELECT * FROM vews WHERE x = = 3
  - name: c
    stateful: {processor: "nothere.py:P", from: drops, by: a, output: "x INTT"}
sinks:
  - {from: aa, topic: "x y"}
  - {from: b, parquet: out, mode: update}
  - {from: c, topic: t, key: "concat(a,", headers: {h: "1 +"}}
"""


def test_every_mistake_at_once(tmp_path: Path) -> None:
    find_java()
    path = tmp_path / "bad.yaml"
    path.write_text(BAD)
    result = CliRunner().invoke(root, ["pipeline", "validate", str(path)])
    assert result.exit_code == 1
    told = [line.strip().removeprefix(f"{path}:") for line in result.output.splitlines()[1:]]
    places = [line.split()[0] for line in told]
    assert places == [
        "2:1", "6:31", "7:14", "8:66", "13:23", "16:24", "16:39", "18:27", "18:74", "20:12", "20:23", "21:35",
        "22:40", "22:60",
    ], result.output  # fmt: skip
    assert "did you mean 'trigger'?" in told[0]
    assert 'Unsupported data type "STRNG"' in told[1]
    assert "did you mean maxOffsetsPerTrigger?" in told[2]
    assert "Syntax error at or near 'views'" in told[4]
    assert "did you mean 'views'?" in told[5]


def test_examples_of_the_page_are_fine(tmp_path: Path) -> None:
    """The YAML and the Python of docs/pipelines.md, as they stand there."""
    page = (Path(__file__).parents[2] / "docs" / "pipelines.md").read_text()
    yaml = page.split("```yaml\n")[1].split("```")[0]
    python = next(block for block in page.split("```python\n") if block.startswith("from moldau.pipelines")).split(
        "```"
    )[0]
    (tmp_path / "activity.yaml").write_text(yaml)
    (tmp_path / "activity_page.py").write_text(python)
    files = [str(tmp_path / "activity.yaml"), str(tmp_path / "activity_page.py")]
    result = CliRunner().invoke(root, ["pipeline", "validate", *files])
    assert result.exit_code == 0, result.output
    assert result.output.count("activity is fine") == 2
