//! A small model with random weights for each architecture, and for each way
//! in which its file can ask for something else.

// Some of it is for other users of the same writer.
#[allow(dead_code, unreachable_pub)]
#[path = "../../src/gguf/test_file.rs"]
mod test_file;

use test_file::TestFile;

/// How many tokens a text of a model may have.
pub(crate) const CONTEXT: u32 = 256;

/// Of so many logits one is written down.
pub(crate) const EVERY: usize = 16;

/// How near two programs' logits must be, with keys and values in 32 bits.
///
/// Weights are in F32, and only the order of sums differs; but llama.cpp looks
/// GELU up in a table of 16-bit numbers, which matters about as much as weights
/// in F16.
pub(crate) fn closeness(case: &str) -> f32 {
    if case.starts_with("gemma") { 2e-3 } else { 1e-4 }
}

/// A model, with what is special in it.
#[derive(Debug)]
pub(crate) struct Case {
    /// The architecture, and what is special.
    pub(crate) name: &'static str,
    /// The file.
    pub(crate) bytes: Vec<u8>,
}

/// Texts for every case: all but the first are longer than any window.
pub(crate) fn prompts() -> Vec<Vec<u32>> {
    let text = |length: u32, factor: u32| (0..length).map(|i| 3 + i * factor % 256).collect();
    vec![text(5, 37), text(40, 91), text(90, 53)]
}

/// What layers hold, in the order of the file.
#[derive(Clone, Copy, Debug)]
struct Shape {
    architecture: &'static str,
    layers: usize,
    width: usize,
    hidden: usize,
    heads: usize,
    kv_heads: usize,
    head_width: usize,
    qkv_fused: bool,
    gate_fused: bool,
    biases: &'static [&'static str],
    head_norms: bool,
    post_norms: bool,
    own_output: bool,
    /// Whether embeddings are small, for networks that multiply them.
    small_embedding: bool,
}

const PLAIN: Shape = Shape {
    architecture: "llama",
    layers: 2,
    width: 64,
    hidden: 96,
    heads: 4,
    kv_heads: 2,
    head_width: 16,
    qkv_fused: false,
    gate_fused: false,
    biases: &[],
    head_norms: false,
    post_norms: false,
    own_output: false,
    small_embedding: false,
};

/// Sebastiano Vigna's `SplitMix64`.
struct Random(u64);

impl Random {
    /// A number from -1 to 1.
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        (z >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    /// As many numbers as a tensor of that shape has, neither growing nor
    /// shrinking what is multiplied with it.
    fn matrix(&mut self, shape: &[u64]) -> Vec<f32> {
        let scale = (3.0 / shape[0] as f32).sqrt();
        let count = shape.iter().product::<u64>() as usize;
        (0..count).map(|_| self.next() * scale).collect()
    }

    fn around(&mut self, centre: f32, distance: f32, count: usize) -> Vec<f32> {
        (0..count).map(|_| centre + distance * self.next()).collect()
    }
}

/// The numbers that every file has.
fn begin(shape: &Shape) -> TestFile {
    let key = |part: &str| format!("{}.{part}", shape.architecture);
    TestFile::new()
        .string("general.architecture", shape.architecture)
        .u32(&key("context_length"), CONTEXT)
        .u32(&key("embedding_length"), shape.width as u32)
        .u32(&key("block_count"), shape.layers as u32)
        .u32(&key("feed_forward_length"), shape.hidden as u32)
        .u32(&key("attention.head_count"), shape.heads as u32)
        .u32(&key("attention.head_count_kv"), shape.kv_heads as u32)
        .u32(&key("attention.key_length"), shape.head_width as u32)
        .u32(&key("attention.value_length"), shape.head_width as u32)
        .f32(&key("attention.layer_norm_rms_epsilon"), 1e-5)
}

/// A vocabulary of bytes.
fn vocabulary(file: TestFile) -> TestFile {
    let bytes: Vec<String> = (0..=255).map(|byte: u8| format!("<0x{byte:02X}>")).collect();
    let mut tokens = vec!["<unk>", "<s>", "</s>"];
    tokens.extend(bytes.iter().map(String::as_str));
    let types = [2_i32, 3, 3].into_iter().chain([6; 256]).flat_map(i32::to_le_bytes);
    let scores = vec![0_u8; 4 * tokens.len()];
    file.string("tokenizer.ggml.model", "llama")
        .strings("tokenizer.ggml.tokens", &tokens)
        .array("tokenizer.ggml.scores", 6, tokens.len() as u64, &scores)
        .array("tokenizer.ggml.token_type", 5, tokens.len() as u64, &types.collect::<Vec<_>>())
        .u32("tokenizer.ggml.bos_token_id", 1)
        .u32("tokenizer.ggml.eos_token_id", 2)
        .u32("tokenizer.ggml.unknown_token_id", 0)
}

fn weights(mut file: TestFile, shape: &Shape) -> TestFile {
    let [width, hidden] = [shape.width as u64, shape.hidden as u64];
    let queries = (shape.heads * shape.head_width) as u64;
    let keys = (shape.kv_heads * shape.head_width) as u64;
    let mut random = Random(shape.architecture.len() as u64);
    let embedding = random.matrix(&[3, 259 * width / 3 + 1]);
    let divisor = if shape.small_embedding { (shape.width as f32).sqrt() } else { 1.0 };
    let embedding: Vec<f32> = embedding[..259 * shape.width].iter().map(|x| x / divisor).collect();
    file = file.tensor_f32("token_embd.weight", &[width, 259], &embedding);
    file = file.tensor_f32("output_norm.weight", &[width], &random.around(1.0, 0.3, shape.width));
    if shape.own_output {
        file = file.tensor_f32("output.weight", &[width, 259], &random.matrix(&[width, 259]));
    }
    for layer in 0..shape.layers {
        let mut matrices = vec![("attn_output", queries, width), ("ffn_down", hidden, width)];
        match shape.qkv_fused {
            true => matrices.push(("attn_qkv", width, queries + 2 * keys)),
            false => matrices.extend([
                ("attn_q", width, queries),
                ("attn_k", width, keys),
                ("attn_v", width, keys),
            ]),
        }
        match shape.gate_fused {
            true => matrices.push(("ffn_up", width, 2 * hidden)),
            false => matrices.extend([("ffn_gate", width, hidden), ("ffn_up", width, hidden)]),
        }
        for (part, columns, rows) in matrices {
            let numbers = random.matrix(&[columns, rows]);
            let name = format!("blk.{layer}.{part}.weight");
            file = file.tensor_f32(&name, &[columns, rows], &numbers);
            if shape.biases.contains(&part) {
                let bias = random.around(0.0, 0.5, rows as usize);
                file = file.tensor_f32(&format!("blk.{layer}.{part}.bias"), &[rows], &bias);
            }
        }
        let mut norms = vec![("attn_norm", shape.width), ("ffn_norm", shape.width)];
        if shape.head_norms {
            norms.extend([("attn_q_norm", shape.head_width), ("attn_k_norm", shape.head_width)]);
        }
        if shape.post_norms {
            norms.extend([("post_attention_norm", shape.width), ("post_ffw_norm", shape.width)]);
        }
        for (part, length) in norms {
            let numbers = random.around(1.0, 0.3, length);
            let name = format!("blk.{layer}.{part}.weight");
            file = file.tensor_f32(&name, &[length as u64], &numbers);
        }
    }
    file
}

fn case(name: &'static str, shape: Shape, more: impl Fn(TestFile) -> TestFile) -> Case {
    let file = more(vocabulary(weights(begin(&shape), &shape)));
    Case { name, bytes: file.bytes() }
}

fn plain(file: TestFile) -> TestFile {
    file
}

/// Divisors as Llama 3's and Phi's files have them: from 1 up.
fn factors(file: TestFile, name: &str, count: usize, step: f32) -> TestFile {
    let factors: Vec<f32> = (0..count).map(|i| 1.0 + step * i as f32).collect();
    file.tensor_f32(name, &[count as u64], &factors)
}

/// All models.
pub(crate) fn cases() -> Vec<Case> {
    let qwen3 = Shape { architecture: "qwen3", head_width: 32, head_norms: true, ..PLAIN };
    let gemma = Shape {
        architecture: "gemma",
        kv_heads: 1,
        head_width: 32,
        small_embedding: true,
        ..PLAIN
    };
    let gemma2 = Shape { architecture: "gemma2", layers: 4, post_norms: true, ..gemma };
    let gemma3 =
        Shape { architecture: "gemma3", layers: 7, head_norms: true, kv_heads: 1, ..gemma2 };
    let phi3 = Shape {
        architecture: "phi3",
        qkv_fused: true,
        gate_fused: true,
        kv_heads: 4,
        own_output: true,
        ..PLAIN
    };
    let all_biases =
        ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"];
    let all_biases: &'static [&'static str] = Box::leak(Box::new(all_biases));
    vec![
        case("llama", PLAIN, plain),
        case(
            "llama, an output of its own and all biases",
            Shape { own_output: true, biases: all_biases, ..PLAIN },
            plain,
        ),
        case("llama, rope_freqs", PLAIN, |file| {
            let file = file.f32("llama.rope.freq_base", 500_000.0);
            factors(file, "rope_freqs.weight", 8, 0.9)
        }),
        case("llama, linear scaling", PLAIN, |file| {
            file.string("llama.rope.scaling.type", "linear").f32("llama.rope.scaling.factor", 4.0)
        }),
        case("llama, yarn", PLAIN, |file| {
            file.string("llama.rope.scaling.type", "yarn")
                .f32("llama.rope.scaling.factor", 4.0)
                .u32("llama.rope.scaling.original_context_length", 64)
        }),
        case(
            "llama, one tensor of queries, keys and values",
            Shape { qkv_fused: true, ..PLAIN },
            plain,
        ),
        case("mistral3", Shape { architecture: "mistral3", ..PLAIN }, |file| {
            file.string("mistral3.rope.scaling.type", "yarn")
                .f32("mistral3.rope.scaling.factor", 4.0)
                .u32("mistral3.rope.scaling.original_context_length", 64)
                .f32("mistral3.rope.scaling.yarn_log_multiplier", 0.5)
                .f32("mistral3.rope.scaling.yarn_beta_fast", 16.0)
                .f32("mistral3.attention.temperature_scale", 0.4)
        }),
        case("smollm3", Shape { architecture: "smollm3", layers: 5, ..PLAIN }, |file| {
            file.f32("smollm3.rope.freq_base", 2_000_000.0)
        }),
        case("qwen2", Shape { architecture: "qwen2", biases: &all_biases[..3], ..PLAIN }, |file| {
            file.f32("qwen2.rope.freq_base", 1_000_000.0)
        }),
        case("qwen3", qwen3, |file| file.f32("qwen3.rope.freq_base", 1_000_000.0)),
        case("qwen3, yarn", qwen3, |file| {
            file.f32("qwen3.rope.freq_base", 1_000_000.0)
                .string("qwen3.rope.scaling.type", "yarn")
                .f32("qwen3.rope.scaling.factor", 4.0)
                .u32("qwen3.rope.scaling.original_context_length", 64)
        }),
        case("gemma", gemma, plain),
        case("gemma2", gemma2, |file| {
            file.u32("gemma2.attention.sliding_window", 8)
                .f32("gemma2.attn_logit_softcapping", 5.0)
                .f32("gemma2.final_logit_softcapping", 3.0)
        }),
        case("gemma3", gemma3, |file| {
            file.f32("gemma3.rope.freq_base", 1_000_000.0)
                .u32("gemma3.attention.sliding_window", 8)
                .string("gemma3.rope.scaling.type", "linear")
                .f32("gemma3.rope.scaling.factor", 8.0)
        }),
        case("gemma3, without a window", gemma3, |file| {
            file.f32("gemma3.rope.freq_base", 1_000_000.0)
        }),
        case("phi3", phi3, plain),
        case("phi3, some of each head turns, by short factors", phi3, |file| {
            let file = file
                .u32("phi3.rope.dimension_count", 12)
                .u32("phi3.rope.scaling.original_context_length", CONTEXT)
                .f32("phi3.rope.scaling.attn_factor", 1.2);
            let file = factors(file, "rope_factors_long.weight", 6, 3.0);
            factors(file, "rope_factors_short.weight", 6, 0.5)
        }),
        case("phi3, long factors", phi3, |file| {
            let file = file
                .u32("phi3.rope.scaling.original_context_length", 64)
                .f32("phi3.rope.scaling.attn_factor", 1.1);
            let file = factors(file, "rope_factors_long.weight", 8, 3.0);
            factors(file, "rope_factors_short.weight", 8, 0.5)
        }),
    ]
}
