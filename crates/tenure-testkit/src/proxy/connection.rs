//! The connections of a proxy: each a client, a server and a pump either way.

use std::{io, net::SocketAddr};

use futures_util::future::try_join;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    sync::watch,
    task::yield_now,
};
use tokio_util::task::TaskTracker;

use super::{Direction, Mode, State};

/// Accepts clients until the proxy aborts it.
pub(super) async fn listen(
    listener: TcpListener,
    mut state: watch::Receiver<State>,
    connections: TaskTracker,
) {
    loop {
        let Ok((client, _)) = listener.accept().await else {
            yield_now().await;
            continue;
        };
        let State { target, mode, cuts, .. } = state.borrow_and_update().clone();
        if mode == Mode::Cut {
            reset(&client);
        } else {
            connections.spawn(serve(client, target, state.clone(), cuts));
        }
    }
}

/// Carries one connection until it ends, is cut, or the proxy is gone.
async fn serve(
    mut client: TcpStream,
    target: SocketAddr,
    state: watch::Receiver<State>,
    cuts: u64,
) {
    let mut server = None;
    let mut end = state.clone();
    let carried = tokio::select! {
        biased;
        _ = end.wait_for(|state| state.cuts != cuts) => Err(aborted()),
        carried = carry(&mut client, &mut server, target, state) => carried,
    };
    if carried.is_err() {
        [Some(client), server].iter().flatten().for_each(reset);
    }
}

/// Leaves the server's socket with the caller, who knows how it has to be closed.
async fn carry(
    client: &mut TcpStream,
    server: &mut Option<TcpStream>,
    target: SocketAddr,
    mut state: watch::Receiver<State>,
) -> io::Result<()> {
    passage(&mut state, Direction::ToServer).await?;
    let server = server.insert(TcpStream::connect(target).await?);
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    try_join(
        pump(from_client, to_server, state.clone(), Direction::ToServer),
        pump(from_server, to_client, state, Direction::ToClient),
    )
    .await?;
    Ok(())
}

/// Moves bytes one way; the end of the stream waits its turn like the bytes before it.
async fn pump(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    mut state: watch::Receiver<State>,
    direction: Direction,
) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let count = from.read(&mut buffer).await?;
        passage(&mut state, direction).await?;
        match count {
            0 => return to.shutdown().await,
            _ if direction == Direction::ToServer => {
                // Before it can be answered.
                if let Some(trap) = &state.borrow().trap {
                    trap.sees(&buffer[..count]);
                }
                to.write_all(&buffer[..count]).await?;
            }
            _ => to.write_all(&buffer[..count]).await?,
        }
    }
}

async fn passage(state: &mut watch::Receiver<State>, direction: Direction) -> io::Result<()> {
    let passing = state.wait_for(|state| state.lets_pass(direction)).await;
    passing.map(drop).map_err(|_| aborted())
}

fn aborted() -> io::Error {
    io::ErrorKind::ConnectionAborted.into()
}

/// Makes the coming drop send RST instead of FIN. It fails only on a socket that is gone.
fn reset(stream: &TcpStream) {
    _ = stream.set_zero_linger();
}
