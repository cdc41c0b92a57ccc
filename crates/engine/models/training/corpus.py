"""Clean the two sources into web.txt and shakespeare.txt."""

import argparse
import html
import re
from pathlib import Path


def clean_bible(osis: str) -> str:
    """Plain text from OSIS markup: one paragraph per line, a gap per chapter."""
    # Footnotes and headings are not part of the text.
    osis = re.sub(r"<note\b.*?</note>", "", osis, flags=re.S)
    osis = re.sub(r"<title\b.*?</title>", "", osis, flags=re.S)
    # Between some words, the only separation is the markup.
    osis = re.sub(r"</w><w\b", " </w><w", osis)
    osis = re.sub(r"<(chapter|book)\b[^>]*sID[^>]*>", "\n\n", osis)
    osis = re.sub(r'<div [^>]*type="(x-p|book)"[^>]*/?>', "\n", osis)
    osis = re.sub(r"<(lg|l|lb)\b[^>]*>", "\n", osis)
    text = html.unescape(re.sub(r"<[^>]+>", "", osis))
    text = re.sub(r"[ \t]+", " ", text)
    text = re.sub(r" ?\n ?", "\n", text)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def clean_play(play: str) -> str:
    play = play.replace("\r", "")
    play = re.sub(r"[ \t]+", " ", play)
    play = re.sub(r"\n ?", "\n", play)
    return re.sub(r"\n{3,}", "\n\n", play)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bible", type=Path, help="the World English Bible as OSIS markup")
    parser.add_argument("plays", type=Path, help="directory with the plays, *_gut.txt")
    args = parser.parse_args()

    Path("web.txt").write_text(clean_bible(args.bible.read_text("utf-8")), "utf-8")

    # The package has each play in two editions; *_gut.txt has modern spelling.
    plays = [path.read_text("latin-1") for path in sorted(args.plays.glob("*_gut.txt"))]
    Path("shakespeare.txt").write_text(clean_play("".join(plays)), "utf-8")

    for name in ("web.txt", "shakespeare.txt"):
        print(name, Path(name).stat().st_size, "bytes")


if __name__ == "__main__":
    main()
