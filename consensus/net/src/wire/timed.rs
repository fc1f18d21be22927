//! A stream with one deadline for all that is read from it.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

/// A stream with one deadline for all reads together, however few bytes each brings.
#[derive(Debug)]
pub(crate) struct Timed<'a> {
    stream: &'a TcpStream,
    end: Instant,
}

impl<'a> Timed<'a> {
    /// Reads from now on for `patience` at most.
    pub(crate) fn new(stream: &'a TcpStream, patience: Duration) -> Self {
        Self { stream, end: Instant::now() + patience }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        (&mut &*self.stream).read(bytes)
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
        drop(stream);
        writer.join().expect("no panic");
    }
}
