use std::{fmt, hash::BuildHasher};

use foldhash::fast::RandomState;
use hashbrown::{HashTable, hash_table::Entry};

use super::{TokenizerError, error::cut};
use crate::gguf::StringArray;

/// The texts of a vocabulary, and the tokens by their text.
///
/// The texts stay in the file, and the table holds ids alone: what it compares is
/// read there.
pub(super) struct Texts {
    texts: StringArray,
    // Without empty texts, for nothing spells them.
    ids: HashTable<u32>,
    // Seeded anew each time, since a file may be made to collide.
    hasher: RandomState,
}

impl Texts {
    pub(super) fn new(texts: StringArray) -> Result<Self, TokenizerError> {
        let found = texts.len();
        let size = u32::try_from(found).map_err(|_| TokenizerError::Size { found })?;
        if size == 0 {
            return Err(TokenizerError::Size { found });
        }
        let (mut ids, hasher) = (HashTable::with_capacity(found), RandomState::default());
        let text_of = |id: u32| texts.bytes(id as usize);
        for second in (0..size).filter(|&id| !text_of(id).is_empty()) {
            let text = text_of(second);
            let hash = |text| hasher.hash_one::<&[u8]>(text);
            match ids.entry(hash(text), |&id| text_of(id) == text, |&id| hash(text_of(id))) {
                Entry::Vacant(place) => place.insert(second),
                Entry::Occupied(place) => {
                    let text = cut(texts.get(second as usize));
                    return Err(TokenizerError::DuplicateToken {
                        text,
                        first: *place.get(),
                        second,
                    });
                }
            };
        }
        Ok(Self { texts, ids, hasher })
    }

    /// The token of that text.
    pub(super) fn id(&self, text: &[u8]) -> Option<u32> {
        let is_it = |&id: &u32| self.texts.bytes(id as usize) == text;
        self.ids.find(self.hasher.hash_one(text), is_it).copied()
    }

    pub(super) fn get(&self, id: u32) -> &str {
        self.texts.get(id as usize)
    }

    /// How many there are: at least one, and no more than ids.
    pub(super) fn size(&self) -> u32 {
        self.texts.len() as u32
    }

    /// The bytes of all texts together.
    pub(super) fn total_bytes(&self) -> usize {
        self.texts.total_bytes()
    }

    /// By id.
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        self.texts.iter()
    }
}

impl fmt::Debug for Texts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.texts.fmt(f)
    }
}
