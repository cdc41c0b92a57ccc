use std::{cmp::Reverse, collections::BinaryHeap};

/// Joins neighbours until no two can be joined: the pair of the lowest rank
/// first and, of equal ranks, the leftmost.
///
/// `join` says whether two neighbours make one item, and at which rank. The
/// time is n log n in the number of items, so a word of a megabyte is only slow.
pub(super) fn merge_all<T, R: Ord>(
    items: impl IntoIterator<Item = T>,
    join: impl Fn(&T, &T) -> Option<(R, T)>,
) -> Vec<T> {
    const END: usize = usize::MAX;
    struct Node<T> {
        // None once the node was joined to the one before it.
        item: Option<T>,
        before: usize,
        after: usize,
        // Counts the node's changes, so that outdated pairs can be told.
        version: u32,
    }
    let mut nodes: Vec<Node<T>> = items
        .into_iter()
        .enumerate()
        .map(|(i, item)| Node {
            item: Some(item),
            before: i.checked_sub(1).unwrap_or(END),
            after: i + 1,
            version: 0,
        })
        .collect();
    if let Some(last) = nodes.last_mut() {
        last.after = END;
    }

    let mut queue = BinaryHeap::new();
    let offer = |nodes: &[Node<T>], queue: &mut BinaryHeap<_>, left: usize, right: usize| {
        if left == END || right == END {
            return;
        }
        if let (Some(a), Some(b)) = (&nodes[left].item, &nodes[right].item)
            && let Some((rank, _)) = join(a, b)
        {
            queue.push(Reverse((rank, left, nodes[left].version, right, nodes[right].version)));
        }
    };
    for right in 1..nodes.len() {
        offer(&nodes, &mut queue, right - 1, right);
    }
    while let Some(Reverse((_, left, left_version, right, right_version))) = queue.pop() {
        if nodes[left].version != left_version || nodes[right].version != right_version {
            continue;
        }
        let (Some(a), Some(b)) = (&nodes[left].item, &nodes[right].item) else { continue };
        let Some((_, joined)) = join(a, b) else { continue };
        let after = nodes[right].after;
        nodes[right].item = None;
        nodes[right].version += 1;
        nodes[left].item = Some(joined);
        nodes[left].version += 1;
        nodes[left].after = after;
        if after != END {
            nodes[after].before = left;
        }
        let before = nodes[left].before;
        offer(&nodes, &mut queue, before, left);
        offer(&nodes, &mut queue, left, after);
    }
    nodes.into_iter().filter_map(|node| node.item).collect()
}

#[cfg(test)]
mod tests {
    use super::merge_all;

    fn joined(text: &str, rules: &[&str]) -> Vec<String> {
        merge_all(text.chars().map(String::from), |a, b| {
            let both = format!("{a}{b}");
            rules.iter().position(|&rule| rule == both).map(|rank| (rank, both))
        })
    }

    #[test]
    fn the_lowest_rank_is_joined_first() {
        assert_eq!(joined("abc", &["bc", "ab"]), ["a", "bc"]);
        assert_eq!(joined("abc", &["ab", "bc"]), ["ab", "c"]);
    }

    #[test]
    fn of_equal_ranks_the_leftmost_is_joined_first() {
        assert_eq!(joined("aaa", &["aa"]), ["aa", "a"]);
        assert_eq!(joined("aaaaa", &["aa", "aaaa"]), ["aaaa", "a"]);
    }

    #[test]
    fn a_join_makes_new_pairs_on_both_sides() {
        assert_eq!(joined("xaby", &["ab", "abY", "xab", "xaby"]), ["xaby"]);
    }

    #[test]
    fn nothing_and_one_item_stay_as_they_are() {
        assert_eq!(joined("", &["aa"]), [""; 0]);
        assert_eq!(joined("a", &["aa"]), ["a"]);
    }
}
