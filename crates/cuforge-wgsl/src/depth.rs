//! How deep a text may be nested: naga reads expressions by recursion, and a stack that is too small ends the process.

use std::thread;

use crate::error::EmitError;

/// Beyond these a text is refused: brackets in each other, and words and signs of one expression without a comma.
const MAX_BRACKETS: u32 = 256;
const MAX_TOKENS: u32 = 4096;

/// Up to these any thread's stack will do.
const PLAIN_BRACKETS: u32 = 24;
const PLAIN_TOKENS: u32 = 192;

/// A stack for the deepest text that is taken, eight times what it was seen to need without optimisation.
const STACK_BYTES: usize = 256 << 20;

/// Runs `read` on a stack that is large enough to read `text`.
///
/// # Errors
/// [`EmitError::TooDeep`] if the text is nested too deeply, or if there is no memory for the stack.
pub(crate) fn with_stack_for<T: Send>(
    text: &str,
    read: impl FnOnce() -> Result<T, EmitError> + Send,
) -> Result<T, EmitError> {
    let (brackets, tokens) = measure(text);
    if brackets > MAX_BRACKETS || tokens > MAX_TOKENS {
        return Err(EmitError::TooDeep { brackets, tokens });
    }
    if brackets <= PLAIN_BRACKETS && tokens <= PLAIN_TOKENS {
        return read();
    }
    thread::scope(|scope| {
        let reader = thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, read);
        let reader = reader.map_err(|_| EmitError::TooDeep { brackets, tokens })?;
        reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The deepest nesting of brackets, and the most words and signs between commas, semicolons and braces.
fn measure(text: &str) -> (u32, u32) {
    let (mut deepest, mut depth, mut longest, mut tokens) = (0_u32, 0_u32, 0_u32, 0_u32);
    let mut in_word = false;
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first == b'/' && after.first() == Some(&b'/') {
            let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            rest = &rest[end..];
            continue;
        }
        let is_word = first.is_ascii_alphanumeric() || matches!(first, b'_' | b'.') || !first.is_ascii();
        match first {
            b',' | b';' => tokens = 0,
            b'{' => {
                depth += 1;
                tokens = 0;
            }
            b'}' => {
                depth = depth.saturating_sub(1);
                tokens = 0;
            }
            b'(' | b'[' => {
                depth += 1;
                tokens += 1;
            }
            b')' | b']' => depth = depth.saturating_sub(1),
            first if first.is_ascii_whitespace() || (is_word && in_word) => {}
            _ => tokens += 1,
        }
        in_word = is_word;
        deepest = deepest.max(depth);
        longest = longest.max(tokens);
    }
    (deepest, longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_and_tokens_are_counted_outside_of_comments() {
        assert_eq!(measure("f(a, b[(c)]) + 1.5; // (((((( a b c d e f g h i j"), (3, 6));
        assert_eq!(measure(""), (0, 0));
        assert_eq!(measure("a { b { c } } d { (e) }"), (2, 2));
        assert_eq!(measure("--a+bb"), (0, 5));
    }
}
