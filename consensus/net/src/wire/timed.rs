//! A stream with one deadline for all that is read from it.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

/// Time after which a watched read asks whether to go on.
const STEP: Duration = Duration::from_millis(200);

/// A stream with one deadline for all reads together, however few bytes each brings.
pub(crate) struct Timed<'a> {
    stream: &'a TcpStream,
    end: Instant,
    /// Returns false to end the read early.
    watch: Option<&'a mut dyn FnMut() -> bool>,
}

impl core::fmt::Debug for Timed<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Timed").field("end", &self.end).finish_non_exhaustive()
    }
}

impl<'a> Timed<'a> {
    /// Reads from now on for `patience` at most.
    pub(crate) fn new(stream: &'a TcpStream, patience: Duration) -> Self {
        Self { stream, end: Instant::now() + patience, watch: None }
    }

    /// Reads for `patience` at most, and no longer than `watch` returns true.
    pub(crate) fn watched(stream: &'a TcpStream, patience: Duration, watch: &'a mut dyn FnMut() -> bool) -> Self {
        Self { watch: Some(watch), ..Self::new(stream, patience) }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            let left = self.end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let step = if self.watch.is_some() { left.min(STEP) } else { left };
            self.stream.set_read_timeout(Some(step))?;
            match ((&mut &*self.stream).read(bytes), &mut self.watch) {
                (Err(error), Some(watch))
                    if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) =>
                {
                    if !watch() {
                        return Err(io::ErrorKind::ConnectionAborted.into());
                    }
                }
                (read, _) => return read,
            }
        }
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&mut &*self.stream).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&mut &*self.stream).flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{net::TcpListener, thread};

    /// Each byte comes within the patience, and all of them do not.
    #[test]
    fn a_byte_at_a_time_wins_no_time() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut slow = TcpStream::connect(listener.local_addr().expect("an address")).expect("it listens");
        let (stream, _) = listener.accept().expect("a connection");
        let writer = thread::spawn(move || {
            while slow.write_all(&[1]).is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
        });
        let mut bytes = vec![0; 1 << 20];
        let read = Timed::new(&stream, Duration::from_millis(200)).read_exact(&mut bytes);
        let kind = read.expect_err("a megabyte takes hours").kind();
        assert!([io::ErrorKind::TimedOut, io::ErrorKind::WouldBlock].contains(&kind), "{kind:?}");
        // A peer that sends nothing keeps no caller that wants to stop.
        let silent = TcpStream::connect(listener.local_addr().expect("an address")).expect("it listens");
        let mut steps = 3;
        let mut watch = || {
            steps -= 1;
            steps > 0
        };
        let read = Timed::watched(&silent, Duration::from_secs(3_600), &mut watch).read(&mut bytes);
        assert_eq!((read.map_err(|error| error.kind()), steps), (Err(io::ErrorKind::ConnectionAborted), 0));
        drop(stream);
        writer.join().expect("no panic");
    }
}
