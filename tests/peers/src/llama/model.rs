use std::{ffi::CString, path::Path, ptr::NonNull, sync::Once};

use llama_cpp_sys_2 as sys;

/// A model that llama.cpp has loaded.
#[derive(Debug)]
pub struct Model(NonNull<sys::llama_model>);

// SAFETY: llama.cpp's models are read-only after loading, and its documentation
// lets several contexts share one.
unsafe impl Send for Model {}
// SAFETY: as above.
unsafe impl Sync for Model {}

unsafe extern "C" fn silence(
    _: sys::ggml_log_level,
    _: *const std::ffi::c_char,
    _: *mut std::ffi::c_void,
) {
}

fn start() {
    static START: Once = Once::new();
    // SAFETY: called once, before any other call; the callback ignores its
    // arguments.
    START.call_once(|| unsafe {
        sys::llama_log_set(Some(silence), std::ptr::null_mut());
        sys::llama_backend_init();
    });
}

impl Model {
    /// Loads a GGUF file.
    ///
    /// # Panics
    ///
    /// If llama.cpp refuses it.
    pub fn load(path: &Path) -> Self {
        Self::open(path, false)
    }

    /// Loads the vocabulary of a GGUF file.
    ///
    /// # Panics
    ///
    /// If llama.cpp refuses it.
    pub fn load_vocabulary(path: &Path) -> Self {
        Self::open(path, true)
    }

    fn open(path: &Path, vocab_only: bool) -> Self {
        start();
        let name = CString::new(path.to_str().expect("a path in UTF-8")).expect("no zero in it");
        // SAFETY: the path outlives the call, the parameters are llama.cpp's own
        // defaults but for two plain values.
        let raw = unsafe {
            let mut params = sys::llama_model_default_params();
            params.n_gpu_layers = 0;
            params.vocab_only = vocab_only;
            sys::llama_model_load_from_file(name.as_ptr(), params)
        };
        Self(NonNull::new(raw).unwrap_or_else(|| panic!("llama.cpp refuses {}", path.display())))
    }

    pub(super) fn vocab(&self) -> *const sys::llama_vocab {
        // SAFETY: the model is alive; its vocabulary lives as long.
        unsafe { sys::llama_model_get_vocab(self.0.as_ptr()) }
    }

    /// Number of tokens in the vocabulary.
    pub fn size(&self) -> usize {
        // SAFETY: the vocabulary is alive.
        let count = unsafe { sys::llama_vocab_n_tokens(self.vocab()) };
        usize::try_from(count).expect("a size")
    }

    /// Whether a token ends a generation.
    pub fn is_end_of_generation(&self, token: u32) -> bool {
        // SAFETY: the vocabulary is alive, and llama.cpp checks the id.
        unsafe { sys::llama_vocab_is_eog(self.vocab(), token as i32) }
    }

    /// Whether a token is printed only where special ones are asked for.
    pub fn is_special(&self, token: u32) -> bool {
        // SAFETY: the vocabulary is alive, and llama.cpp checks the id.
        let attributes = unsafe { sys::llama_vocab_get_attr(self.vocab(), token as i32) };
        let special = sys::LLAMA_TOKEN_ATTR_UNKNOWN | sys::LLAMA_TOKEN_ATTR_CONTROL;
        attributes & special != 0
    }

    /// The token that ends a turn or, where there is none, the text.
    pub fn end_of_turn(&self) -> Option<u32> {
        // SAFETY: the vocabulary is alive.
        let ends =
            unsafe { [sys::llama_vocab_eot(self.vocab()), sys::llama_vocab_eos(self.vocab())] };
        ends.into_iter().find_map(|token| u32::try_from(token).ok())
    }

    /// The tokens of a text.
    ///
    /// # Panics
    ///
    /// If llama.cpp cannot tokenize it.
    pub fn tokenize(&self, text: &[u8], add_special: bool, parse_special: bool) -> Vec<u32> {
        let mut tokens = vec![0; text.len() + 8];
        // SAFETY: text and buffer are passed with their lengths.
        let count = unsafe {
            sys::llama_tokenize(
                self.vocab(),
                text.as_ptr().cast(),
                i32::try_from(text.len()).expect("a text that fits"),
                tokens.as_mut_ptr(),
                i32::try_from(tokens.len()).expect("a buffer that fits"),
                add_special,
                parse_special,
            )
        };
        tokens.truncate(usize::try_from(count).expect("llama.cpp tokenizes the text"));
        tokens.into_iter().map(|token| token as u32).collect()
    }

    /// The bytes that a token stands for, special ones printed.
    ///
    /// # Panics
    ///
    /// If a token has more than a kilobyte.
    pub fn piece(&self, token: u32) -> Vec<u8> {
        let mut bytes = vec![0_u8; 1024];
        // SAFETY: the buffer is passed with its length.
        let count = unsafe {
            sys::llama_token_to_piece(
                self.vocab(),
                token as i32,
                bytes.as_mut_ptr().cast(),
                i32::try_from(bytes.len()).expect("a kilobyte"),
                0,
                true,
            )
        };
        bytes.truncate(usize::try_from(count).expect("a piece of at most a kilobyte"));
        bytes
    }

    /// A fresh context, for texts of at most `length` tokens.
    ///
    /// Keys and values are in full precision.
    ///
    /// # Panics
    ///
    /// If llama.cpp cannot make it.
    pub fn context(&self, length: u32, threads: i32) -> Context<'_> {
        self.context_with(length, threads, sys::GGML_TYPE_F32)
    }

    /// The same with keys and values in 16 bits, as is llama.cpp's default.
    ///
    /// # Panics
    ///
    /// If llama.cpp cannot make it.
    pub fn context_in_f16(&self, length: u32, threads: i32) -> Context<'_> {
        self.context_with(length, threads, sys::GGML_TYPE_F16)
    }

    fn context_with(&self, length: u32, threads: i32, cache: sys::ggml_type) -> Context<'_> {
        // SAFETY: the model outlives the context, by the lifetime.
        let raw = unsafe {
            let mut params = sys::llama_context_default_params();
            params.n_ctx = length;
            params.n_batch = length;
            params.n_threads = threads;
            params.n_threads_batch = threads;
            params.type_k = cache;
            params.type_v = cache;
            params.flash_attn_type = sys::LLAMA_FLASH_ATTN_TYPE_DISABLED;
            sys::llama_init_from_model(self.0.as_ptr(), params)
        };
        Context { raw: NonNull::new(raw).expect("a context"), model: self, pool: None }
    }

    /// A fresh context as llama.cpp makes it unless told otherwise, for so many texts
    /// of at most `length` tokens, whose threads stay from one call to the next.
    ///
    /// # Panics
    ///
    /// If llama.cpp cannot make it.
    pub fn context_with_defaults(&self, length: u32, texts: u32, threads: i32) -> Context<'_> {
        // SAFETY: the model outlives the context, by the lifetime; the context
        // outlives none of the pool's uses, and goes first.
        unsafe {
            let mut params = sys::llama_context_default_params();
            params.n_ctx = length * texts;
            params.n_seq_max = texts;
            params.n_batch = length;
            params.n_threads = threads;
            params.n_threads_batch = threads;
            let raw = sys::llama_init_from_model(self.0.as_ptr(), params);
            let raw = NonNull::new(raw).expect("a context");
            let mut params = sys::ggml_threadpool_params_default(threads);
            let pool = NonNull::new(sys::ggml_threadpool_new(&mut params)).expect("threads");
            sys::llama_attach_threadpool(raw.as_ptr(), pool.as_ptr(), pool.as_ptr());
            Context { raw, model: self, pool: Some(pool) }
        }
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        // SAFETY: the model is alive, and contexts cannot outlive it.
        unsafe { sys::llama_model_free(self.0.as_ptr()) }
    }
}

/// A text in the making, with the logits of what may follow it.
#[derive(Debug)]
pub struct Context<'a> {
    raw: NonNull<sys::llama_context>,
    model: &'a Model,
    pool: Option<NonNull<sys::ggml_threadpool>>,
}

impl Context<'_> {
    /// Appends tokens and returns the last one's logits.
    ///
    /// # Panics
    ///
    /// If llama.cpp cannot evaluate them.
    pub fn forward(&mut self, tokens: &[u32]) -> &[f32] {
        let mut tokens: Vec<i32> = tokens.iter().map(|&token| token as i32).collect();
        // SAFETY: the batch points into `tokens`, which outlives the call, and
        // asks for the logits of its last token, which live until the next one.
        unsafe {
            let count = i32::try_from(tokens.len()).expect("a batch that fits");
            let batch = sys::llama_batch_get_one(tokens.as_mut_ptr(), count);
            let status = sys::llama_decode(self.raw.as_ptr(), batch);
            assert_eq!(status, 0, "llama.cpp evaluates {count} tokens");
            let logits = sys::llama_get_logits_ith(self.raw.as_ptr(), -1);
            std::slice::from_raw_parts(logits, self.model.size())
        }
    }

    /// Appends tokens and returns the logits after each of them.
    ///
    /// # Panics
    ///
    /// If llama.cpp cannot evaluate them.
    pub fn forward_each(&mut self, tokens: &[u32]) -> Vec<Vec<f32>> {
        self.append(tokens, |_| 0);
        let logits = |at| {
            // SAFETY: the logits of all these tokens live until the next call.
            unsafe {
                let logits = sys::llama_get_logits_ith(self.raw.as_ptr(), at);
                std::slice::from_raw_parts(logits, self.model.size()).to_vec()
            }
        };
        (0..tokens.len() as i32).map(logits).collect()
    }

    /// Makes so many texts of the first one.
    pub fn multiply(&mut self, texts: usize) {
        // SAFETY: the context is alive, and has room for so many.
        unsafe {
            let memory = sys::llama_get_memory(self.raw.as_ptr());
            for text in 1..texts {
                sys::llama_memory_seq_rm(memory, text as i32, -1, -1);
                sys::llama_memory_seq_cp(memory, 0, text as i32, -1, -1);
            }
        }
    }

    /// Appends a token to each of several texts.
    ///
    /// # Panics
    ///
    /// If llama.cpp cannot evaluate them.
    pub fn forward_all(&mut self, tokens: &[u32]) {
        self.append(tokens, |at| at as i32);
    }

    /// Appends tokens to texts, and has the logits after each computed.
    fn append(&mut self, tokens: &[u32], text: impl Fn(usize) -> i32) {
        let count = i32::try_from(tokens.len()).expect("a batch that fits");
        // SAFETY: the batch has room for `count` tokens of one sequence each, and
        // is freed after its last use. Without positions, llama.cpp counts on.
        unsafe {
            let mut batch = sys::llama_batch_init(count, 0, 1);
            batch.n_tokens = count;
            for (at, token) in tokens.iter().enumerate() {
                *batch.token.add(at) = *token as i32;
                *batch.n_seq_id.add(at) = 1;
                **batch.seq_id.add(at) = text(at);
                *batch.logits.add(at) = 1;
            }
            let positions = std::mem::replace(&mut batch.pos, std::ptr::null_mut());
            let status = sys::llama_decode(self.raw.as_ptr(), batch);
            batch.pos = positions;
            sys::llama_batch_free(batch);
            assert_eq!(status, 0, "llama.cpp evaluates {count} tokens");
        }
    }

    /// Forgets the text.
    pub fn clear(&mut self) {
        // SAFETY: the context is alive.
        unsafe { sys::llama_memory_clear(sys::llama_get_memory(self.raw.as_ptr()), true) }
    }
}

impl Drop for Context<'_> {
    fn drop(&mut self) {
        // SAFETY: the context is alive, and nothing uses it afterwards; then
        // nothing uses the pool.
        unsafe {
            sys::llama_free(self.raw.as_ptr());
            if let Some(pool) = self.pool {
                sys::ggml_threadpool_free(pool.as_ptr());
            }
        }
    }
}
