"""The transcript of the mission can be read on its page without scrolling sideways."""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "mission.md"
WIDEST = 112  # characters that a page shows of a block


def test_no_line_of_the_transcript_is_wider_than_a_page() -> None:
    transcript = PAGE.read_text().partition("```text\n")[2].partition("```")[0]
    assert "launch_training-2" in transcript
    assert [line for line in transcript.splitlines() if len(line) > WIDEST] == []
