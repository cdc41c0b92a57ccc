/// Memory for numbers that begins where a cache line does: a load of 64 bytes
/// then never needs two.
#[derive(Debug, Default)]
pub(super) struct Aligned<T> {
    memory: Vec<T>,
    start: usize,
    length: usize,
}

const LINE: usize = 64;

impl<T: Copy + Default> Aligned<T> {
    /// So many numbers, of which the caller must not rely on any.
    #[inline]
    pub(super) fn room(&mut self, length: usize) -> &mut [T] {
        let more = LINE / size_of::<T>();
        if self.memory.len() < length + more {
            self.memory = vec![T::default(); length + more];
            // Where no offset is told, loads are only slower.
            self.start = self.memory.as_ptr().align_offset(LINE).min(more);
        }
        self.length = length;
        &mut self.memory[self.start..][..length]
    }

    #[inline]
    pub(super) fn get(&self) -> &[T] {
        &self.memory[self.start..][..self.length]
    }
}
