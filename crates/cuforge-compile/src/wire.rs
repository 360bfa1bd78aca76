//! What a compiler and its helper processes say to each other: frames with a length, fields with a length.

use std::io::{self, Read, Write};
use std::path::Path;

use crate::bytes::{Reader, Writer};
use crate::engine::{Identity, Job, Output};
use crate::error::CompileError;

/// A frame is never longer: sources of a gigabyte are no sources.
const FRAME_LIMIT_BYTES: u64 = 1 << 30;

/// Calls and texts that errors name; a static text cannot travel, its place in this list can.
const NAMES: &[&str] = &[
    "nvrtcCreateProgram",
    "nvrtcAddNameExpression",
    "nvrtcSetFlowCallback",
    "nvrtcCompileProgram",
    "nvrtcGetPTX",
    "nvrtcGetLoweredName",
    "header count",
    "option count",
    "source name",
    "source",
    "option",
    "header name",
    "header",
    "name expression",
];

/// Sends one frame.
pub(crate) fn send(stream: &mut impl Write, body: &[u8]) -> io::Result<()> {
    stream.write_all(&u64::try_from(body.len()).unwrap_or(u64::MAX).to_le_bytes())?;
    stream.write_all(body)?;
    stream.flush()
}

/// Receives one frame; `None` when the other side has closed between frames.
pub(crate) fn receive(stream: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut len = [0; 8];
    match stream.read_exact(&mut len) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut body = vec![0; frame_len(len)?];
    stream.read_exact(&mut body)?;
    Ok(Some(body))
}

/// The length of a frame from its head.
pub(crate) fn frame_len(head: [u8; 8]) -> io::Result<usize> {
    let len = u64::from_le_bytes(head);
    if len > FRAME_LIMIT_BYTES {
        return Err(io::Error::other("a frame of more than 1 GiB"));
    }
    usize::try_from(len).map_err(io::Error::other)
}

/// What a helper says first: who it is, or why it cannot work.
pub(crate) fn hello(ready: Result<(&Identity, &[u32]), &CompileError>) -> Vec<u8> {
    let mut writer = Writer::default();
    match ready {
        Ok((identity, archs)) => {
            writer.u32(0).field(identity.kind.as_bytes()).u32(identity.version.0).u32(identity.version.1);
            writer.field(identity.build.as_bytes()).list(archs.iter().map(|arch| arch.to_le_bytes()));
        }
        Err(error) => {
            writer.u32(1).field(error.to_string().as_bytes());
        }
    }
    writer.finish()
}

/// Reads a hello; the inner error is the helper's reason.
pub(crate) fn read_hello(body: &[u8]) -> Option<Result<(Identity, Vec<u32>), String>> {
    let mut reader = Reader::new(body);
    if reader.u32()? != 0 {
        return Some(Err(reader.text()?.to_owned()));
    }
    let kind = reader.text()?.to_owned();
    let version = (reader.u32()?, reader.u32()?);
    let build = reader.text()?.to_owned();
    let archs = reader.fields()?.iter().map(|field| Reader::new(field).u32()).collect::<Option<_>>()?;
    Some(Ok((Identity { kind, version, build }, archs)))
}

pub(crate) fn job(job: &Job) -> Vec<u8> {
    let mut writer = Writer::with_capacity(job.source.len() + 4096);
    writer
        .field(job.name.as_bytes())
        .field(job.source.as_bytes())
        .list(job.options.iter())
        .list(job.headers.iter().map(|(name, _)| name))
        .list(job.headers.iter().map(|(_, text)| text.as_bytes()))
        .list(job.name_expressions.iter());
    writer.finish()
}

pub(crate) fn read_job(body: &[u8]) -> Option<Job> {
    let mut reader = Reader::new(body);
    let (name, source) = (reader.text()?.to_owned(), reader.text()?.into());
    let options = reader.fields()?;
    let (names, texts) = (reader.texts()?, reader.texts()?);
    let headers = names.into_iter().zip(texts.into_iter().map(Into::into)).collect();
    Some(Job { name, source, options, headers, name_expressions: reader.texts()? })
}

pub(crate) fn answer(answer: &Result<Output, CompileError>) -> Vec<u8> {
    let mut writer = Writer::default();
    match answer {
        Ok(output) => {
            writer
                .u32(0)
                .optional(output.ptx.as_deref().map(str::as_bytes))
                .optional(output.cubin.as_deref());
            writer.field(output.log.as_bytes()).list(output.lowered.iter());
        }
        Err(CompileError::Source { name, log }) => {
            writer.u32(1).field(name.as_bytes()).field(log.as_bytes());
        }
        Err(CompileError::InvalidOption { options, log }) => {
            writer.u32(2).list(options.iter()).field(log.as_bytes());
        }
        Err(CompileError::Call { call, code, text, log }) => {
            writer.u32(3).field(call.as_bytes()).u32(code.cast_unsigned()).field(text.as_bytes());
            writer.field(log.as_bytes());
        }
        Err(CompileError::NulByte { what, at }) => {
            writer.u32(4).field(what.as_bytes()).u64(u64::try_from(*at).unwrap_or(u64::MAX));
        }
        Err(other) => {
            writer.u32(5).field(other.to_string().as_bytes());
        }
    }
    writer.finish()
}

pub(crate) fn read_answer(body: &[u8], helper: &Path) -> Option<Result<Output, CompileError>> {
    let mut reader = Reader::new(body);
    let name = |text: &str| NAMES.iter().find(|name| **name == text).copied().unwrap_or("a call");
    let text = |reader: &mut Reader<'_>| reader.text().map(str::to_owned);
    Some(match reader.u32()? {
        0 => {
            let ptx = match reader.optional()? {
                Some(bytes) => Some(std::str::from_utf8(bytes).ok()?.to_owned()),
                None => None,
            };
            let cubin = reader.optional()?.map(<[u8]>::to_vec);
            Ok(Output { ptx, cubin, log: text(&mut reader)?, lowered: reader.texts()? })
        }
        1 => Err(CompileError::Source { name: text(&mut reader)?, log: text(&mut reader)? }),
        2 => Err(CompileError::InvalidOption { options: reader.texts()?, log: text(&mut reader)? }),
        3 => {
            let call = name(reader.text()?);
            let code = reader.u32()?.cast_signed();
            Err(CompileError::Call { call, code, text: text(&mut reader)?, log: text(&mut reader)? })
        }
        4 => {
            let what = name(reader.text()?);
            Err(CompileError::NulByte { what, at: usize::try_from(reader.u64()?).ok()? })
        }
        _ => Err(CompileError::Helper { helper: helper.to_path_buf(), reason: text(&mut reader)? }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_and_answers_survive_the_wire() {
        let sent = Job {
            name: "k.cu".into(),
            source: "int x;".into(),
            options: vec![b"-I\xff".to_vec()],
            headers: vec![("h".into(), "t".into())],
            name_expressions: vec!["k<1>".into()],
        };
        assert_eq!(read_job(&job(&sent)), Some(sent));
        let output =
            Output { ptx: Some("p".into()), cubin: None, log: "l".into(), lowered: vec!["n".into()] };
        let helper = Path::new("/helper");
        assert_eq!(read_answer(&answer(&Ok(output.clone())), helper).unwrap().unwrap(), output);
        let errors = [
            CompileError::Source { name: "k".into(), log: "log".into() },
            CompileError::InvalidOption { options: vec!["-x".into()], log: "log".into() },
            CompileError::Call { call: "nvrtcCompileProgram", code: -7, text: "t".into(), log: "log".into() },
            CompileError::NulByte { what: "source", at: 3 },
        ];
        for error in errors {
            let text = error.to_string();
            let got = read_answer(&answer(&Err(error)), helper).unwrap().unwrap_err();
            assert_eq!(got.to_string(), text);
        }
    }

    #[test]
    fn a_frame_with_an_absurd_length_is_refused_before_anything_is_allocated() {
        assert!(receive(&mut &u64::MAX.to_le_bytes()[..]).is_err());
        assert_eq!(receive(&mut &b""[..]).unwrap(), None);
    }
}
