//! Texts that are hard to tokenize.

use rand::{RngExt as _, SeedableRng as _, seq::IndexedRandom as _};
use rand_xoshiro::Xoshiro256PlusPlus;

/// What the texts are made of, beside characters at random.
pub const PIECES: [&str; 72] = [
    // Words, and how they are cut.
    "the",
    " the",
    "The",
    " THE",
    "ROMEO",
    " unbelievable",
    "don't",
    "we'LL",
    "it's",
    "'s",
    "'re",
    "''",
    "naïve",
    " Zürich",
    "e\u{301}",
    "ﬁnal",
    "Straße",
    "ǅ",
    "K",
    // Other scripts.
    "東京",
    "日本語の",
    "한국어",
    "Привет",
    " мир",
    "שלום",
    "العربية",
    "हिन्दी",
    "ไทย",
    "ﷺ",
    "٣٤",
    "Ⅷ",
    "½",
    "x²",
    // Signs and emoji.
    "—",
    "…",
    "“",
    "”",
    "🙂",
    "👩\u{200d}💻",
    "🇩🇪",
    "\u{fe0f}",
    "\u{feff}",
    "€",
    "$",
    "!!!",
    "?!",
    "...",
    "_",
    // Spaces.
    " ",
    "  ",
    "    ",
    "\t",
    "\n",
    "\n\n",
    "\r\n",
    " \n ",
    "\u{a0}",
    "\u{3000}",
    "\u{2028}",
    "\u{85}",
    // Numbers and code.
    "1",
    "42",
    "1234567",
    "3.14",
    "0x1F",
    "fn f(x: &[u8]) -> u8 {",
    "};\n\t",
    "</div>",
    "a_b",
    "\"\\n\"",
    // Zero, and what is no character.
    "\0",
    "\u{fffd}",
];

/// What stands for special tokens, wholly or nearly.
const SPECIAL: [&str; 14] = [
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "</s>",
    "<s>",
    "<unk>",
    "<|im_end|",
    "|im_end|>",
    "<|",
    "|>",
    "<|im_",
    "<<|im_end|>>",
    "<|IM_END|>",
    "<0x41>",
];

/// The text with this number.
pub fn text(number: u64) -> String {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(number);
    let mut text = String::new();
    for _ in 0..rng.random_range(0..24) {
        match rng.random_range(0..12) {
            0 | 1 => text += SPECIAL.choose(&mut rng).expect("a list"),
            2 => {
                let plane = *[0x80, 0x800, 0x1_0000, 0x11_0000].choose(&mut rng).expect("a list");
                text.extend(char::from_u32(rng.random_range(0..plane)));
            }
            3 => {
                let space = *[" ", "\n", "\t"].choose(&mut rng).expect("a list");
                text += &space.repeat(rng.random_range(1..20));
            }
            _ => text += PIECES.choose(&mut rng).expect("a list"),
        }
    }
    text
}
