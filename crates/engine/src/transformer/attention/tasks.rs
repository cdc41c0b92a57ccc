use std::ops::Range;

use super::Query;

/// Of so many tokens in a row, a head's queries are answered in one go.
const TOKENS: usize = 16;

/// Queries of heads that share keys, of a text's tokens in a row.
#[derive(Debug)]
pub(in crate::transformer) struct Task<'a> {
    pub(in crate::transformer) text: usize,
    /// The one with the keys.
    pub(in crate::transformer) head: usize,
    pub(in crate::transformer) queries: Vec<Query<'a>>,
}

/// How many heads there are, and how many of them have keys, which the others share.
#[derive(Clone, Copy, Debug)]
pub(in crate::transformer) struct Sharing {
    pub(in crate::transformer) heads: usize,
    pub(in crate::transformer) kv_heads: usize,
}

impl Sharing {
    /// The heads that share keys.
    pub(in crate::transformer) fn whole(self) -> usize {
        self.heads / self.kv_heads
    }

    /// A share of them such that there are about so many parts, all alike.
    pub(in crate::transformer) fn in_parts(self, parts: usize) -> usize {
        let most = self.whole().div_ceil(parts);
        (1..=most).rev().find(|n| self.whole().is_multiple_of(*n)).unwrap_or(1)
    }

    /// Divides the queries of all tokens, `together` heads at a time. For each token
    /// come its text and the positions that it looks at, texts one after the other.
    pub(in crate::transformer) fn tasks<'a>(
        self,
        together: usize,
        tokens: impl ExactSizeIterator<Item = (usize, Range<usize>)>,
        queries: &'a [f32],
        out: &'a mut [f32],
    ) -> Vec<Task<'a>> {
        let width = queries.len() / (tokens.len() * self.heads);
        let units = self.heads / together;
        let mut tasks: Vec<Task<'a>> = Vec::new();
        let all = queries.chunks_exact(self.heads * width);
        let all = all.zip(out.chunks_exact_mut(self.heads * width));
        for ((text, tokens), (queries, out)) in tokens.zip(all) {
            let continues = tasks
                .last()
                .is_some_and(|last| last.text == text && last.queries.len() < TOKENS * together);
            if !continues {
                tasks.extend((0..units).map(|unit| Task {
                    text,
                    head: unit * together / self.whole(),
                    queries: Vec::with_capacity(together),
                }));
            }
            let first = tasks.len() - units;
            let heads = queries.chunks_exact(width).zip(out.chunks_exact_mut(width));
            for (head, (numbers, out)) in heads.enumerate() {
                let query = Query { numbers, tokens: tokens.clone(), out };
                tasks[first + head / together].queries.push(query);
            }
        }
        tasks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: six heads share the keys of two, three each.
    #[test]
    fn heads_that_share_keys_go_together_and_texts_do_not() {
        let sharing = Sharing { heads: 6, kv_heads: 2 };
        assert_eq!((sharing.whole(), sharing.in_parts(1), sharing.in_parts(2)), (3, 3, 1));
        let queries: Vec<f32> = (0..18_u8).map(f32::from).collect();
        let tokens = [(0, 0..5), (0, 1..6), (1, 0..1)];
        let mut out = [0.0; 18];
        let tasks = sharing.tasks(3, tokens.into_iter(), &queries, &mut out);
        let found: Vec<_> = tasks
            .iter()
            .map(|task| {
                let queries = task.queries.iter().map(|query| query.numbers[0]);
                (task.text, task.head, queries.collect::<Vec<_>>())
            })
            .collect();
        let expected = [
            (0, 0, vec![0.0, 1.0, 2.0, 6.0, 7.0, 8.0]),
            (0, 1, vec![3.0, 4.0, 5.0, 9.0, 10.0, 11.0]),
            (1, 0, vec![12.0, 13.0, 14.0]),
            (1, 1, vec![15.0, 16.0, 17.0]),
        ];
        assert_eq!(found, expected);
        assert_eq!(tasks[1].queries[3].tokens, 1..6);
    }
}
