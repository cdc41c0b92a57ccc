use llama_cpp_sys_2 as sys;

/// The numbers that a tensor's first bytes stand for. `kind` is the file
/// format's number for their type.
///
/// # Panics
///
/// If there are too few bytes, or llama.cpp cannot read the type.
pub fn dequantize(kind: u32, bytes: &[u8], count: usize) -> Vec<f32> {
    const F32: u32 = 0;
    const TYPES: u32 = sys::GGML_TYPE_COUNT;
    assert!(kind < TYPES, "no type has the number {kind}");
    // SAFETY: the number is one of a type's.
    let (block, size, convert) = unsafe {
        let traits = &*sys::ggml_get_type_traits(kind);
        (traits.blck_size, traits.type_size, traits.to_float)
    };
    let needed = count / usize::try_from(block).expect("a size") * size;
    let bytes = &bytes[..needed];
    if kind == F32 {
        return bytes
            .chunks_exact(4)
            .map(|four| f32::from_le_bytes(four.try_into().expect("4 bytes")))
            .collect();
    }
    let convert = convert.expect("a type that can be read");
    let mut out = vec![0.0; count];
    // Blocks are read as structs of 16-bit numbers: a copy is aligned to more.
    let mut aligned = vec![0_u64; needed.div_ceil(8)];
    for (word, eight) in aligned.iter_mut().zip(bytes.chunks(8)) {
        let mut padded = [0; 8];
        padded[..eight.len()].copy_from_slice(eight);
        *word = u64::from_ne_bytes(padded);
    }
    // SAFETY: `aligned` holds all blocks of `count` numbers, and `out` has room
    // for as many.
    unsafe { convert(aligned.as_ptr().cast(), out.as_mut_ptr(), count as i64) };
    out
}
