//! SQLite: a file, one thread that owns its connection, and the machine's boot clock as its time.

#[cfg(target_os = "linux")]
mod inotify;
#[cfg(not(target_os = "linux"))]
mod silent;

use std::{
    fs::OpenOptions, os::unix::fs::OpenOptionsExt, path::Path, sync::mpsc, thread, time::Duration,
};

#[cfg(target_os = "linux")]
pub use inotify::{announce, watch};
use rusqlite::{Connection, ErrorCode, functions::FunctionFlags};
#[cfg(not(target_os = "linux"))]
pub use silent::{announce, watch};
use tokio::sync::oneshot;

use crate::{BootInstant, DatabaseError, Deadline, clock::unix_time};

/// Opens a file for several processes: write-ahead log, every commit on disk, `boottime_ms()` and
/// `unixtime_us()` known.
///
/// `busy` bounds how long a statement waits for another process's write.
pub fn open(path: &Path, busy: Duration) -> Result<Connection, DatabaseError> {
    keep_private(path);
    let connection = Connection::open(path)?;
    connection.busy_timeout(busy)?;
    use_write_ahead_log(&connection, BootInstant::now() + busy)?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    register_clocks(&connection)?;
    Ok(connection)
}

/// A new file is its owner's alone; what SQLite keeps beside it gets the same rights. One that is there stays as it is.
fn keep_private(path: &Path) {
    // Whatever is wrong with it, SQLite says so in a moment.
    let _ = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
}

/// The switch to the write-ahead log does not wait for another process that opens the fresh file too,
/// whatever the busy timeout says.
fn use_write_ahead_log(connection: &Connection, until: BootInstant) -> Result<(), rusqlite::Error> {
    loop {
        match connection.pragma_update(None, "journal_mode", "wal") {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && BootInstant::now() < until =>
            {
                thread::sleep(Duration::from_millis(5));
            }
            result => return result,
        }
    }
}

/// SQL's `boottime_ms()`, milliseconds of this machine's boot clock, and `unixtime_us()`, microseconds since
/// 1970 by its wall clock; both read at every call.
fn register_clocks(connection: &Connection) -> Result<(), rusqlite::Error> {
    let flags = FunctionFlags::SQLITE_UTF8;
    connection.create_scalar_function("boottime_ms", 0, flags, |_| {
        Ok(i64::try_from(BootInstant::now().as_millis()).unwrap_or(i64::MAX))
    })?;
    connection.create_scalar_function("unixtime_us", 0, flags, |_| {
        Ok(i64::try_from(unix_time().as_micros()).unwrap_or(i64::MAX))
    })
}

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// A connection on a thread of its own, so that waiting for the file never blocks a runtime.
#[derive(Clone, Debug)]
pub struct FileThread {
    jobs: mpsc::Sender<Job>,
}

impl FileThread {
    /// Starts the thread; it ends, and closes the file, when the last handle is gone.
    pub fn start(connection: Connection) -> std::io::Result<Self> {
        let (jobs, queue) = mpsc::channel::<Job>();
        let mut connection = connection;
        thread::Builder::new().name("tenure-sqlite".to_owned()).spawn(move || {
            for job in queue {
                job(&mut connection);
            }
        })?;
        Ok(Self { jobs })
    }

    /// Runs a job on the thread. One that is given up may still be applied later.
    pub async fn call<T: Send + 'static>(
        &self,
        deadline: Deadline,
        job: impl FnOnce(&mut Connection) -> Result<T, rusqlite::Error> + Send + 'static,
    ) -> Result<T, DatabaseError> {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |connection| {
            // Whoever asked may have given up meanwhile.
            let _ = answer.send(job(connection));
        });
        self.jobs.send(job).map_err(|_| DatabaseError::ThreadEnded)?;
        let answered = async { answered.await.map_err(|_| DatabaseError::ThreadEnded) };
        Ok(deadline.run(answered).await??)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_is_its_owners_alone_and_an_old_one_stays_as_it_is() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let (new, old) = (folder.path().join("new.db"), folder.path().join("old.db"));
        std::fs::write(&old, "").unwrap();
        std::fs::set_permissions(&old, std::fs::Permissions::from_mode(0o640)).unwrap();
        for (path, mode) in [(&new, 0o600), (&old, 0o640)] {
            let file = open(path, Duration::from_secs(1)).unwrap();
            file.execute_batch("CREATE TABLE a (b INTEGER)").unwrap();
            for suffix in ["", "-wal", "-shm"] {
                let path = format!("{}{suffix}", path.display());
                let found = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
                assert_eq!(found, mode, "{path}");
            }
        }
    }

    #[tokio::test]
    async fn time_in_sql_is_the_boot_clock() {
        let folder = tempfile::tempdir().unwrap();
        let file = open(&folder.path().join("a.db"), Duration::from_secs(1)).unwrap();
        let thread = FileThread::start(file).unwrap();
        let before = BootInstant::now().as_millis();
        let told: i64 = thread
            .call(Deadline::after(Duration::from_secs(5)), |file| {
                file.query_row("SELECT boottime_ms()", [], |row| row.get(0))
            })
            .await
            .unwrap();
        assert!((before..=BootInstant::now().as_millis()).contains(&told.unsigned_abs()));
    }

    #[test]
    fn many_may_open_a_fresh_file_at_once() {
        for _ in 0..20 {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.db");
            thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| open(&path, Duration::from_secs(5)).unwrap());
                }
            });
        }
    }

    #[tokio::test]
    async fn a_job_that_takes_too_long_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let file = open(&folder.path().join("a.db"), Duration::from_secs(1)).unwrap();
        let thread = FileThread::start(file).unwrap();
        let (release, held) = mpsc::channel::<()>();
        let given_up = thread
            .call(Deadline::after(Duration::from_millis(50)), move |_| {
                let _ = held.recv();
                Ok(())
            })
            .await;
        assert!(matches!(given_up, Err(DatabaseError::TimedOut { .. })));
        drop(release);
    }
}
