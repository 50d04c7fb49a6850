//! URLs that name several servers, of which only one can be written to.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::net::{Ipv4Addr, TcpListener};

use tenure_database::{DatabaseError, Deadline, error, postgres::PostgresUrl};
use tenure_testkit::{
    Port, eventually_true, pause,
    postgres::Postgres,
    proxy::{Direction, Proxy},
    secs,
};

fn url(ports: &[u16], options: &str) -> PostgresUrl {
    let hosts: Vec<_> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    format!("postgres://postgres:s3cret@{}/postgres{options}", hosts.join(",")).parse().unwrap()
}

const WRITES: &str = "?target_session_attrs=read-write";

/// The port of the server that answered, on both ways to connect.
async fn reaches(url: &PostgresUrl) -> Result<u16, DatabaseError> {
    let deadline = Deadline::after(secs(10));
    let (by_socket, session) =
        tokio::try_join!(url.connect_with_socket(deadline), url.connect(deadline))?;
    let mut ports = Vec::new();
    for session in [by_socket.0, session] {
        let row = session.query_one("SELECT inet_server_port()", &[]).await?;
        ports.push(u16::try_from(row.get::<_, i32>(0)).unwrap());
    }
    assert_eq!(ports[0], ports[1]);
    Ok(ports[0])
}

#[tokio::test]
async fn the_first_that_serves_is_taken() {
    let (one, two) = (Postgres::start().await.unwrap(), Postgres::start().await.unwrap());
    let both = url(&[one.port(), two.port()], "");
    assert_eq!(reaches(&both).await.unwrap(), one.port());
}

#[tokio::test]
async fn a_host_that_is_down_is_passed_over() {
    let (down, up) = (Port::claim().unwrap(), Postgres::start().await.unwrap());
    let both = url(&[down.number(), up.port()], WRITES);
    assert_eq!(reaches(&both).await.unwrap(), up.port());
}

#[tokio::test]
async fn a_standby_is_passed_over_where_writes_are_wanted_and_taken_where_they_are_not() {
    let primary = Postgres::start().await.unwrap();
    let standby = primary.replica().await.unwrap();
    let hosts = [standby.port(), primary.port()];
    assert_eq!(reaches(&url(&hosts, WRITES)).await.unwrap(), primary.port());
    assert_eq!(reaches(&url(&hosts, "")).await.unwrap(), standby.port());
    let reads = url(&[primary.port(), standby.port()], "?target_session_attrs=read-only");
    assert_eq!(reaches(&reads).await.unwrap(), standby.port());
}

#[tokio::test]
async fn a_host_that_accepts_and_never_answers_leaves_time_for_the_next() {
    let primary = Postgres::start().await.unwrap();
    let silent = Proxy::to(primary.addr()).await.unwrap();
    silent.hold(Direction::Both);
    let both = url(&[silent.port(), primary.port()], WRITES);
    assert_eq!(reaches(&both).await.unwrap(), primary.port());
}

#[tokio::test]
async fn a_server_that_stands_still_leaves_time_for_the_next() {
    let (frozen, primary) = (Postgres::start().await.unwrap(), Postgres::start().await.unwrap());
    pause(frozen.postmaster_pid()).unwrap();
    let both = url(&[frozen.port(), primary.port()], WRITES);
    assert_eq!(reaches(&both).await.unwrap(), primary.port());
}

/// As a machine without power: nothing comes back, not even a refusal. A full backlog drops what arrives.
#[tokio::test]
async fn a_host_that_does_not_even_accept_leaves_time_for_the_next() {
    let hole = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = hole.local_addr().unwrap();
    socket2::SockRef::from(&hole).listen(0).unwrap();
    let nonblocking = || {
        let socket =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.set_nonblocking(true).unwrap();
        let _ = socket.connect(&address.into());
        socket
    };
    let _full: Vec<_> = (0..8).map(|_| nonblocking()).collect();
    let primary = Postgres::start().await.unwrap();
    let both = url(&[address.port(), primary.port()], WRITES);
    assert_eq!(reaches(&both).await.unwrap(), primary.port());
}

#[tokio::test]
async fn a_slow_host_is_not_given_up() {
    let primary = Postgres::start().await.unwrap();
    let slow = Proxy::to(primary.addr()).await.unwrap();
    let silent = Proxy::to(primary.addr()).await.unwrap();
    slow.hold(Direction::Both);
    silent.hold(Direction::Both);
    let both = url(&[slow.port(), silent.port()], WRITES);
    let connecting = tokio::spawn(async move { both.connect(Deadline::after(secs(10))).await });
    eventually_true("its share is over", secs(10), async || silent.connections() == 1).await;
    slow.pass();
    connecting.await.unwrap().unwrap();
}

#[tokio::test]
async fn when_nobody_serves_each_is_named_without_the_password() {
    let primary = Postgres::start().await.unwrap();
    let standby = primary.replica().await.unwrap();
    let down = Port::claim().unwrap();
    let both = url(&[down.number(), standby.port()], WRITES);
    let error = reaches(&both).await.unwrap_err();
    let said = error::chain(&error);
    for part in [
        format!(
            "cannot connect to postgres://postgres@127.0.0.1:{},127.0.0.1:{}/postgres",
            down.number(),
            standby.port()
        ),
        format!("127.0.0.1:{}: Connection refused", down.number()),
        format!("127.0.0.1:{}: it takes no writes", standby.port()),
    ] {
        assert!(said.contains(&part), "{part}: {said}");
    }
    assert!(!said.contains("s3cret"), "{said}");
}

#[tokio::test]
async fn the_url_s_own_limit_ends_a_silent_host_and_names_it() {
    let primary = Postgres::start().await.unwrap();
    let silent = Proxy::to(primary.addr()).await.unwrap();
    silent.hold(Direction::Both);
    let alone = url(&[silent.port()], "?connect_timeout=1");
    let error = alone.connect(Deadline::after(secs(60))).await.unwrap_err();
    assert!(matches!(error, DatabaseError::TimedOut { within } if within == secs(1)), "{error:?}");
}

#[test]
fn tls_options_are_split_off_a_url_of_several_hosts() {
    let text =
        "postgres://me:s3cret@one:5433,two/app?target_session_attrs=read-write&sslmode=verify-full";
    let url: PostgresUrl = text.parse().unwrap();
    assert_eq!(url.to_string(), "postgres://me@one:5433,two:5432/app");
    assert!(!format!("{url:?}").contains("s3cret"));
}
